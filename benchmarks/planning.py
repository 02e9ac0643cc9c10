"""What plans promise from validation images, against what happens on test images; and the frontier.

At each prevalence the planner chooses from the bundle's recordings (validation split), and the scheme that it
chose runs over a mixture of the test split; its intervals are for as many images as that is worth. Beside it
stand individual testing, Dorfman's pools, the paper's 50×100 design with MIP, and the cheapest cascade and
adaptive scheme that meet the same target on validation data. One table reckons the same plans at the cost of
ResNeXt-101 (front .22): a projection. The last one plans on random halves of the recorded images and says how
often the other half keeps the promise.

    python benchmarks/planning.py --bundle my-bundle --data data.csv --cache-dir cache --out planning.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from poolsieve.bundles import MultiplyAdds, load_bundle
from poolsieve.bundles.recordings import Recordings
from poolsieve.engines import open_engine
from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, record_images
from poolsieve.evaluation.mixtures import draw_mixture
from poolsieve.evaluation.recorded_networks import RecordedNetworks
from poolsieve.evaluation.scheme_runs import run_scheme
from poolsieve.files import write_atomically
from poolsieve.images.datasets import load_dataset
from poolsieve.planning import Choices, Target, search
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel, Scheme, make_scheme

PREVALENCES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
RESNEXT_FRONT = 0.22
HALVES = 200


def main() -> None:
    """Plan, run and print."""
    given = _arguments()
    bundle = load_bundle(given.bundle)
    if bundle.outliers is not None:
        raise SystemExit("for outlier bundles: poolsieve evaluate BUNDLE DATA -m auto -m adaptive-planned")
    sizes, price = bundle.config.pool_sizes, bundle.config.cost
    gated = bundle.config.merge == "gated"
    recordings = bundle.recordings()
    dataset = load_dataset(given.data)
    rows = dataset.of_split("test")
    images = LabelledImages(
        "test", [dataset.files[i] for i in rows], [dataset.digests[i] for i in rows], dataset.labels[rows]
    )
    engine = open_engine(bundle, threads=given.threads)
    reporter = Reporter()
    folder = cache_folder(given.cache_dir, engine, images)
    folder.mkdir(parents=True, exist_ok=True)
    networks = RecordedNetworks(record_images(folder, engine, images, reporter), engine)
    likelihoods = LikelihoodModel(bundle.calibration)

    def measured(scheme: Scheme, prevalence: float) -> str:
        number = given.pooled_images if scheme.pools else given.images
        mixture = draw_mixture(images.labels, prevalence, number, np.random.default_rng(0))
        gated = bundle.config.merge == "gated"
        run = run_scheme(scheme, mixture, networks, likelihoods, price, gated=gated, seed=0)
        found = run.image_counts(mixture).detection()
        return f"{found.sensitivity} | {found.specificity} | {run.meter.share:.3f}"

    def others(prevalence: float) -> tuple[float, float]:
        """Bad and clear images that tell as much as drawing from those of the test split does."""
        bad = int(images.labels.sum())
        drawn = given.images * prevalence, given.images * (1 - prevalence)
        return 1 / (1 / drawn[0] + 1 / bad), 1 / (1 / drawn[1] + 1 / (len(images.labels) - bad))

    lines = [f"Bundle {bundle.name} ({bundle.hash[:12]}); {given.images:,} draws of the test split, "
             f"{given.pooled_images:,} where there are pools."]  # fmt: skip
    for within in (0.01, 0.03):
        lines += ["", f"## Within {within} of individual testing, no worse a specificity", "", _HEAD, _RULE]
        for prevalence in PREVALENCES:
            found = search(
                recordings, prevalence, Target(within=within), sizes, price, others(prevalence), gated=gated
            )
            for name, scheme, promise in _compared(found, sizes, prevalence, rivals=within == 0.01):
                reporter.line(f"{prevalence} {name}")
                lines.append(f"| {prevalence} | {name} | {promise} | {measured(scheme, prevalence)} |")
                write_atomically(given.out, ("\n".join(lines) + "\n").encode())  # it takes long
    lines += ["", "## Projection: the same readings with the cost of ResNeXt-101 (front .22)", ""]
    lines += ["| p | within .01 | within .03 |", "|---|---|---|"]
    whole = price.whole
    front = round(RESNEXT_FRONT * whole)
    dear = MultiplyAdds(front, whole - front - price.final, price.final, price.gate, price.glance)
    for prevalence in PREVALENCES:
        best = [
            search(recordings, prevalence, Target(within=w), sizes, dear, gated=gated).best
            for w in (0.01, 0.03)
        ]
        lines.append(f"| {prevalence} | " + " | ".join(f"{b.scheme} {b.cost.value:.3f}" for b in best) + " |")
    if recordings.glances is not None:
        lines += [
            "",
            f"## Promises kept by the other half of the recorded images, {HALVES} random halves",
            "",
        ]
        lines += ["| p | within | sensitivity | specificity | cost |", "|---|---|---|---|---|"]
        for prevalence in (0.001, 0.01, 0.1):
            for within in (0.01, 0.03):
                kept = " | ".join(f"{x:.0%}" for x in _kept_by_halves(recordings, prevalence, within, price))
                lines.append(f"| {prevalence} | {within} | {kept} |")
    write_atomically(given.out, ("\n".join(lines) + "\n").encode())
    print("\n".join(lines))


_HEAD = "| p | scheme | promised: sensitivity | specificity | cost | sensitivity | specificity | cost |"
_RULE = "|---|---|---|---|---|---|---|---|"


def _compared(
    found: Choices, sizes: tuple[int, ...], prevalence: float, *, rivals: bool
) -> Iterator[tuple[str, Scheme, str]]:
    """Name, scheme and promise of the chosen plan and of what it is compared with."""
    best = found.best
    shown = [("**planned**: " + best.scheme, best)]
    for name in ("cascade", "adaptive"):
        others = [plan for plan in found.plans if plan.scheme == name and plan is not best]
        shown += [(f"cheapest {name}", others[0])] if others and rivals else []
    for title, plan in shown:
        promise = f"{plan.sensitivity} | {plan.specificity} | {plan.cost}"
        yield title, make_scheme(plan.scheme, sizes, **plan.parameters), promise
    if rivals:
        none = "– | – | –"
        yield "individual", make_scheme("individual", sizes), none
        yield "dorfman", make_scheme("dorfman", sizes, prevalence=prevalence), none
        if 8 in sizes:
            yield "50×100 + MIP", make_scheme("oneshot", sizes, pool_size=8, prevalence=prevalence), none


def _kept_by_halves(
    recordings: Recordings, prevalence: float, within: float, price: MultiplyAdds
) -> NDArray[np.float64]:
    """How often sensitivity, specificity and cost of a plan by half of the images hold for the other half.

    Only plans of individual tests and glances, so that what happens to an image does not hang on others.
    """
    glances, bad = recordings.glances, recordings.bad
    assert glances is not None
    kept = []
    for seed in range(HALVES):
        rng = np.random.default_rng(seed)
        first = np.zeros(len(bad), dtype=bool)
        for kind in (bad, ~bad):
            rows = rng.permutation(np.flatnonzero(kind))
            first[rows[: len(rows) // 2]] = True
        own = Recordings(bad[first], recordings.scores[first], None, (), glances[first])
        ill, well = bad & ~first, ~bad & ~first
        others = float(ill.sum()), float(well.sum())
        best = search(own, prevalence, Target(within=within), (), price, others, gated=False).best
        asked, glance = np.ones(len(bad), dtype=bool), 0.0
        if best.scheme == "glance":
            asked = expit(glances + logit(prevalence)) >= best.parameters["clear_below"]
            glance = price.glance / price.whole
        flagged = asked & (recordings.scores > best.parameters["threshold"])
        tests = prevalence * asked[ill].mean() + (1 - prevalence) * asked[well].mean()
        seen = flagged[ill].mean(), 1 - flagged[well].mean(), glance + tests
        promised = best.sensitivity, best.specificity, best.cost
        kept.append([one.low - 1e-9 <= x <= one.high + 1e-9 for one, x in zip(promised, seen, strict=True)])
    shares: NDArray[np.float64] = np.mean(kept, axis=0)
    return shares


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", required=True, help="a bundle with recordings of the validation split")
    parser.add_argument("--data", type=Path, required=True, help="the data set with the split test")
    parser.add_argument("--cache-dir", type=Path, required=True)
    parser.add_argument("--images", type=int, default=200_000, help="draws where no pools are read")
    parser.add_argument("--pooled-images", type=int, default=5_000, help="draws where pools are read")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
