r"""What would have told off-topic images better? One thing at a time, changed from what a run has.

    python benchmarks/outlier_candidates.py --run runs/firearms-offtopic --data firearms_offtopic.csv \
        --cache-dir runs/cache --out tries.md

For single images and for pools with no or one off-topic image: the layer that vectors are taken from, their
normalisation, the mixture's K and covariances, Mahalanobis distance and nearest neighbours in its place, the
network's own outputs, and rotations at test time. Everything is fitted to on-topic training images as in
training, and measured on validation and on test images. Then the histogram's largest count t, in pools of 0
to t off-topic images, equally many of each. What a reading learns on validation data it learns from one half
of them to be measured on the other, and from all for the test.

Intervals are 95% ones. Those of areas know that some pools share their off-topic image, but not that pools
share on-topic ones. "Against the first" is a paired difference, so its interval is the narrower one.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outlier_outputs import ANGLES, LAST, MEASURED, Floats, NetworkOutputs, Said, load_views, read_outputs
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import NearestNeighbors

from poolsieve.bundles.config import OUTLIER_FILE
from poolsieve.networks.trained import CONFIG_FILE, load_model
from poolsieve.outliers import (
    FittedMixture,
    GaussianMixture,
    OutlierReading,
    OutlierReadings,
    fit_mixture,
    make_reading,
)
from poolsieve.outliers.fitting import COVARIANCES
from poolsieve.progress import Reporter
from poolsieve.statistics import Estimate, auc_difference, auc_estimate, proportion
from poolsieve.training.network_outputs import badness
from poolsieve.training.settings import TrainingSettings

LARGEST_COUNTS = (3, 5, 8)
NEIGHBOURS = 10
COMBINED = "density and logits combined, as the bundle reads"

Scores = dict[str, NDArray[np.float64]]
"""By split."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="folder of poolsieve train --task outlier")
    parser.add_argument("--data", type=Path, required=True, help="the labelled images of that run")
    parser.add_argument("--cache-dir", type=Path, default=Path("runs/cache"))
    parser.add_argument("--images", type=int, help="at most so many of each class and split; by default all")
    parser.add_argument("--pools", type=int, default=1500, help="on-topic training pools to fit to")
    parser.add_argument("--measured-pools", type=int, default=600, help="of each count, in each split")
    parser.add_argument("--seed", type=int, default=0, help="draws the pools")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    given = parser.parse_args()
    if not (given.run / OUTLIER_FILE).is_file():
        parser.error(
            f"{given.run} has no {OUTLIER_FILE}; give a finished run of poolsieve train --task outlier"
        )
    stored = OutlierReadings.from_bytes((given.run / OUTLIER_FILE).read_bytes())
    settings = TrainingSettings.from_json(json.loads((given.run / CONFIG_FILE).read_text())["settings"])
    if settings.views < 2:
        parser.error(f"{given.run} was trained on one view of each image; two or more are needed")
    model, reporter = load_model(given.run), Reporter()
    views = load_views(model, given.data, settings, given.cache_dir, reporter, given.images, given.seed)
    size = max(model.counting)
    text, alone = "", None
    for places, name in ((1, "Single images"), (size, f"Pools of {size}")):
        reporter.line(f"reading {name.lower()}")
        outputs = read_outputs(model, views, places, given.pools, given.measured_pools, given.seed)
        shipped = fit_mixture(outputs.learnt.vectors, outputs.held_out.vectors, seed=given.seed)
        own = stored.individual if places == 1 else stored.counting[size]
        candidates = []
        for candidate, scores in tried(outputs, shipped, own.mixture, alone, given.seed):
            candidates.append((candidate, scores))
            reporter.line(f"{name.lower()}: {candidate}")
        text += f"**{name}**, {numbers(outputs, places)}\n\n{area_table(outputs, candidates)}\n"
        if places == 1:
            alone = dict(candidates)[COMBINED]
        else:
            text += f"**Counts** in pools of {size}\n\n{count_table(outputs, shipped.mixture, size)}\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text)


def tried(
    outputs: NetworkOutputs, shipped: FittedMixture, stored: GaussianMixture, alone: Scores | None, seed: int
) -> Iterator[tuple[str, Scores]]:
    """Names of all candidates and scores of the few, higher = more off-topic; the first is as in training.

    Args:
        outputs: What was read.
        shipped: The density as it is fitted in training.
        stored: That of the run, which was fitted to other pools.
        alone: Scores of single images, by split, for pools.
        seed: Of EM.
    """
    learnt, held_out, few = outputs.learnt, outputs.held_out, outputs.few

    def fit(layer: str = LAST, form: Callable[[Floats], Floats] = np.asarray, **how: Any) -> FittedMixture:
        return fit_mixture(form(learnt.layers[layer]), form(held_out.layers[layer]), seed=seed, **how)

    def scores(score: Callable[[Said], NDArray[np.float64]]) -> Scores:
        return {split: score(said) for split, said in few.items()}

    def density(
        found: FittedMixture, layer: str = LAST, form: Callable[[Floats], Floats] = np.asarray
    ) -> Scores:
        return scores(lambda said: found.mixture.scores(form(said.layers[layer])))

    yield f"as in training: density of the layer {LAST}; {chosen(shipped)}", density(shipped)
    yield "the mixture stored in the run", scores(lambda said: stored.scores(said.vectors))
    for layer in reversed([name for name in learnt.layers if name != LAST]):
        found = fit(layer)
        yield f"layer: {layer}; {chosen(found)}", density(found, layer)
    for name, form in (("unit length", unit), ("square roots", roots)):
        found = fit(form=form)
        yield f"vectors: {name}; {chosen(found)}", density(found, form=form)
    found = fit(standardise=False)
    yield f"vectors: features not standardised; {chosen(found)}", density(found)
    along = (shipped.mixture.dimensions,)
    for clusters in (1, 2, 5, 12):
        found = fit(clusters=(clusters,), dimensions=along)
        yield f"K fixed; {chosen(found)}", density(found)
    for covariance in COVARIANCES:
        found = fit(covariances=(covariance,), dimensions=along)
        yield f"covariance fixed; {chosen(found)}", density(found)
    shrunk = LedoitWolf().fit(learnt.vectors)
    yield "Mahalanobis distance, Ledoit–Wolf shrinkage", scores(lambda said: shrunk.mahalanobis(said.vectors))
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(unit(learnt.vectors))
    yield (
        f"distance to {NEIGHBOURS} nearest training vectors, unit length",
        scores(lambda said: near.kneighbors(unit(said.vectors))[0].mean(axis=1)),
    )
    yield "the network's logits", scores(lambda said: badness(said.logits))
    counted = by_reading(outputs, shipped.mixture, largest=1, combine=True)
    yield (
        COMBINED,
        {s: badness(counted[s][0])[all_.pools.counts <= 1] for s, all_ in outputs.measured.items()},
    )
    both = fit_mixture(
        np.concatenate([learnt.vectors, outputs.other_views.vectors]), held_out.vectors, seed=seed
    )
    yield f"fitted to a random view of the training images too; {chosen(both)}", density(both)
    for fitted, found in (("", shipped), (", fitted to a random view too", both)):
        for number in (2, len(ANGLES)):
            name = " and ".join(f"±{angle:g}°" for angle in ANGLES[:number:2])
            yield (
                f"mean of upright and turned by {name}{fitted}",
                {s: mean_of([few[s], *outputs.turned[s][:number]], found.mixture) for s in few},
            )
        yield (
            f"every image turned at random by up to 30°{fitted}",
            {s: found.mixture.scores(said.vectors) for s, said in outputs.at_random.items()},
        )
    yield (
        "logits, mean of upright and all turned",
        {s: np.mean([badness(v.logits) for v in (few[s], *outputs.turned[s])], axis=0) for s in few},
    )
    if alone is not None:
        yield (
            "every image of the pool alone, combined, the largest",
            {s: alone[s][said.pools.members].max(axis=1) for s, said in few.items()},
        )


def by_reading(
    outputs: NetworkOutputs, mixture: GaussianMixture, *, largest: int, combine: bool
) -> dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Combined logits and counts of all measured, by split; validation ones by the other half of them."""
    val, test = (outputs.measured[split] for split in MEASURED)

    def learn(own: NDArray[np.bool_]) -> OutlierReading:
        part = val.only(own)
        counts = part.pools.counts
        return make_reading(mixture, part.logits, part.vectors, counts, largest=largest, combine=combine)

    combined, counts = np.empty_like(val.logits), np.empty(len(val.pools), dtype=np.int64)
    first = np.arange(len(counts)) % 2 == 0
    for own in (first, ~first):
        part = val.only(own)
        combined[own], counts[own] = learn(~own).read(part.logits, part.vectors)
    everything = np.ones(len(counts), dtype=bool)
    return {"val": (combined, counts), "test": learn(everything).read(test.logits, test.vectors)}


def chosen(found: FittedMixture) -> str:
    mixture = found.mixture
    return (
        f"K = {mixture.clusters}, {found.covariance}, {mixture.dimensions} directions, +{found.shrinkage:g}"
    )


def mean_of(views: list[Said], mixture: GaussianMixture) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = np.mean([mixture.scores(said.vectors) for said in views], axis=0)
    return mean


def unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def roots(vectors: Floats) -> Floats:
    return np.sign(vectors) * np.sqrt(np.abs(vectors))


def numbers(outputs: NetworkOutputs, places: int) -> str:
    """What the areas rest on, in two sentences."""
    what, kinds = ("images", ("on topic", "off")) if places == 1 else ("pools", ("with none", "with one"))
    parts = []
    for split, name in MEASURED.items():
        none, one = np.bincount(outputs.few[split].pools.counts, minlength=2)
        parts.append(f"{name} {none} {kinds[0]} and {one} {kinds[1]}")
    return f"AUC. Fitted to {len(outputs.learnt.pools)} on-topic training {what}; {', '.join(parts)}."


def area_table(outputs: NetworkOutputs, candidates: list[tuple[str, Scores]]) -> str:
    lines = [
        "| tried | validation | against the first | test | against the first |",
        "|---|---|---|---|---|",
    ]
    for name, scores in candidates:
        row = [name]
        for split, said in outputs.few.items():
            bad, first = said.pools.counts, candidates[0][1][split]
            row.append(shown(auc_estimate(scores[split], bad, groups=said.groups)))
            row.append(
                ""
                if scores is candidates[0][1]
                else shown(auc_difference(scores[split], first, bad, groups=said.groups), "+")
            )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def count_table(outputs: NetworkOutputs, mixture: GaussianMixture, size: int) -> str:
    """How well the histogram counts, by its largest count t; the last row is the bundle's own reading."""
    lines = [
        "| read by | split | exact | within one | 0 read as 0 | 1 read as more than 0 |",
        "|---|---|---|---|---|---|",
    ]
    rows = [(f"histogram, t = {t}", t, False) for t in LARGEST_COUNTS if t <= size]
    for name, largest, combine in [*rows, (f"density and logits, up to {size}", size, True)]:
        found = by_reading(outputs, mixture, largest=largest, combine=combine)
        for split, what in MEASURED.items():
            true = outputs.measured[split].pools.counts
            inside = true <= largest
            away = np.abs(found[split][1] - true)
            shares = [
                away[inside] == 0,
                away[inside] <= 1,
                away[true == 0] == 0,
                found[split][1][true == 1] > 0,
            ]
            row = [name, what, *(shown(proportion(hit.sum(), len(hit)), digits=3) for hit in shares)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def shown(found: Estimate, sign: str = "", digits: int = 4) -> str:
    """A value and its interval, without leading zeros."""
    return re.sub(r"\b0\.", ".", f"{found:{sign}.{digits}f}")


if __name__ == "__main__":
    main()
