"""Pooled outlier detection on real images: confusion of counts, sensitivity and specificity of every method.

    python benchmarks/outliers.py BUNDLE DATA.csv [--images 10000] [--out table.md]

Every method runs on the same networks, once by the paper's reading (density alone, histogram) and once as
the bundle reads (density and the networks' own outputs). Mixtures are drawn from the test split; intervals
are by distinct image.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.calibration import Calibration, CountingCalibration, OutputScaling, confusion_counts
from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput, open_engine
from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, hold_cache, record_images
from poolsieve.evaluation.image_metrics import ImageDetection
from poolsieve.evaluation.mixtures import draw_mixture
from poolsieve.evaluation.pool_memory import PoolMemory
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.evaluation.trials import run_scheme
from poolsieve.images.datasets import ImageDataset, load_dataset
from poolsieve.outliers import OutlierReading, OutlierReadings
from poolsieve.progress import Reporter
from poolsieve.schemes import Evidence, Scheme, make_scheme
from poolsieve.training.sampling import draw_pools

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "Individual-OD": ("individual", {}),
    "Dorfman-OD": ("dorfman", {}),
    "COMP-OD": ("oneshot", {"decoder": "comp"}),
    "NCOMP-OD": ("oneshot", {"decoder": "ncomp"}),
    "CLasso-OD": ("oneshot", {"decoder": "classo"}),
    "MIP-OD": ("oneshot", {"decoder": "mip"}),
    "BP-OD": ("oneshot", {"decoder": "bp"}),
    "adaptive": ("adaptive", {}),
}


class ReadNetworks:
    """Networks whose outputs are read by the density of their vectors.

    Args:
        networks: Give the networks' own logits and vectors.
        readings: How they are read.
    """

    def __init__(self, networks: RecordedNetworks, readings: OutlierReadings) -> None:
        self._networks, self._readings = networks, readings

    def front(self, images: NDArray[Any]) -> FrontFeatures:
        """As they are."""
        return self._networks.front(images)

    def glance(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """As they are."""
        return self._networks.glance(images)

    def head(self, features: NDArray[Any]) -> HeadOutput:
        """As they are."""
        return self._networks.head(features)

    def individual(self, features: NDArray[Any]) -> NetworkOutput:
        """Read."""
        return _read(self._networks.individual(features), self._readings.individual)

    def pooled(
        self, features: NDArray[Any], gate: NDArray[Any] | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """Read."""
        return _read(
            self._networks.pooled(features, gate, pools, pool_size), self._readings.counting[pool_size]
        )


def _read(output: NetworkOutput, reading: OutlierReading) -> NetworkOutput:
    logits, counts = reading.read(output.logits, output.vectors)
    return NetworkOutput(logits, output.vectors, counts)


@dataclass(frozen=True)
class Way:
    """One way to read the networks' outputs."""

    name: str
    readings: OutlierReadings
    calibration: Calibration


def ways(bundle: Bundle) -> list[Way]:
    """By density alone as in the paper, and as the bundle does if that is something else."""
    assert bundle.outliers is not None
    alone = OutlierReadings(
        _by_density(bundle.outliers.individual),
        {size: _by_density(reading) for size, reading in bundle.outliers.counting.items()},
    )
    # Smoothed likelihoods are what they are: nothing is left to be calibrated.
    paper = replace(
        bundle.calibration,
        individual=_even(2),
        counting={
            size: CountingCalibration(_even(size + 1), part.confusion, part.correlation)
            for size, part in bundle.calibration.counting.items()
        },
    )
    found = [Way("density", alone, paper)]
    if not bundle.outliers.individual.by_density:
        found.append(Way("combined", bundle.outliers, bundle.calibration))
    return found


def _by_density(reading: OutlierReading) -> OutlierReading:
    return replace(reading, logit_weight=0.0, score_weight=1.0)


def _even(outputs: int) -> OutputScaling:
    return OutputScaling(1.0, (0.0,) * outputs, (1 / outputs,) * outputs)


def split_images(dataset: ImageDataset, split: str) -> LabelledImages:
    """The images of one split."""
    rows = dataset.of_split(split)
    return LabelledImages(
        split,
        [dataset.files[row] for row in rows],
        [dataset.digests[row] for row in rows],
        dataset.labels[rows],
    )


def confusion_lines(
    networks: RecordedNetworks, labels: NDArray[np.int64], way: Way, size: int, pools: int
) -> list[str]:
    """The (t + 1) × (t + 1) matrix of true and read counts, as a Markdown table."""
    largest = way.readings.counting[size].histogram.largest
    numbers = np.zeros(size + 1, dtype=np.int64)
    numbers[: largest + 1] = pools
    drawn = draw_pools(labels, numbers, np.random.default_rng(1))
    images = np.arange(len(labels))
    output = ReadNetworks(networks, way.readings).pooled(images, images, drawn.members, size)
    assert output.counts is not None
    table = confusion_counts(drawn.counts, np.minimum(output.counts, largest), size)[: largest + 1]
    lines = [
        f"| true \\ read ({way.name}) | {' | '.join(map(str, range(largest + 1)))} |",
        "|---" * (largest + 2) + "|",
    ]
    shares = table[:, : largest + 1] / pools
    return lines + [
        f"| {k} | {' | '.join(f'{share:.3f}' for share in row)} |" for k, row in enumerate(shares)
    ]


def _cell(detection: ImageDetection, cost: float) -> list[str]:
    shown = [
        f"{part.value:.4f} [{part.low:.3f}, {part.high:.3f}]"
        for part in (detection.sensitivity, detection.specificity)
    ]
    return [*shown, f"{cost:.2f}"]


def measure(
    bundle: Bundle,
    networks: RecordedNetworks,
    records: ImageRecords,
    labels: NDArray[np.int64],
    prevalences: Sequence[float],
    images: int,
    reporter: Reporter,
) -> list[str]:
    """Rows of sensitivity, specificity and cost for every prevalence and method."""
    lines = [
        "| p | reading | method | sensitivity | specificity | cost |",
        "|---|---|---|---|---|---|",
    ]
    for prevalence in prevalences:
        mixture = draw_mixture(labels, prevalence, images, np.random.default_rng(round(prevalence * 1e6)))
        for way in ways(bundle):
            read = ReadNetworks(networks, way.readings)
            for name, (scheme_name, options) in METHODS.items():
                own = {} if scheme_name == "individual" else {"prevalence": prevalence}
                scheme: Scheme = make_scheme(scheme_name, bundle.config.pool_sizes, **own, **options)
                trial = run_scheme(
                    scheme,
                    mixture,
                    read,
                    Evidence(way.calibration),
                    bundle.config.cost,
                    gated=bundle.config.merge == "gated",
                    seed=0,
                )
                cells = _cell(trial.tally(mixture).detection(), trial.meter.share)
                lines.append(f"| {prevalence:g} | {way.name} | {name} | {' | '.join(cells)} |")
                reporter.line(lines[-1])
    return lines


def auc_lines(bundle: Bundle, records: ImageRecords, labels: NDArray[np.int64]) -> list[str]:
    """Area under the curve of single images, by every kind of evidence."""
    from sklearn.metrics import roc_auc_score

    assert bundle.outliers is not None
    reading = bundle.outliers.individual
    scores = reading.mixture.scores(records.vectors)
    evidence = reading.evidence(records.logits, scores)
    kinds = {
        "density (the paper's Individual-OD)": scores,
        "network's own output": records.logits[:, 1] - records.logits[:, 0],
        "as the bundle reads": evidence[:, 1] - evidence[:, 0],
        "cheap head": records.head_logits,
    }
    return [f"- {name}: AUC {roc_auc_score(labels, values):.4f}" for name, values in kinds.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=int, default=10000, help="images of a mixture")
    parser.add_argument("--pools", type=int, default=300, help="validation pools of each count")
    parser.add_argument("--prevalence", type=float, action="append", help="by default the paper's nine")
    parser.add_argument("--pool-size", type=int, default=8)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-dir", type=Path, default=Path("outlier-cache"))
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    given = parser.parse_args()
    reporter = Reporter()
    bundle = load_bundle(given.bundle)
    if bundle.outliers is None:
        raise SystemExit(f"{given.bundle} is no outlier bundle; train one with --task outlier")
    # The networks' own outputs are recorded; how they are read is what is compared.
    engine = open_engine(replace(bundle, outliers=None), given.engine, threads=given.threads)
    dataset = load_dataset(given.data)
    lines: list[str] = []
    for split in ("val", "test"):
        images = split_images(dataset, split)
        folder = cache_folder(given.cache_dir, engine, images)
        with hold_cache(folder), PoolMemory() as memory:
            records = record_images(folder, engine, images, reporter)
            networks = RecordedNetworks(records, engine, memory, vectors=True)
            bad = int(images.labels.sum())
            lines += ["", f"{split}: {bad} off-topic and {len(images) - bad} on-topic images", ""]
            lines += [*auc_lines(bundle, records, images.labels), ""]
            if split == "val":
                for way in ways(bundle):
                    part = confusion_lines(networks, images.labels, way, given.pool_size, given.pools)
                    lines += [*part, ""]
                continue
            chosen = given.prevalence or PAPER_PREVALENCES
            lines += measure(bundle, networks, records, images.labels, chosen, given.images, reporter)
    print("\n".join(lines))
    if given.out is not None:
        given.out.write_text("\n".join(lines).strip() + "\n")


if __name__ == "__main__":
    main()
