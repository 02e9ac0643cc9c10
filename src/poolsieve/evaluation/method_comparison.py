"""All methods at all prevalences, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from poolsieve.evaluation.competitors import Competitor, NetworkKind, Setup
from poolsieve.evaluation.context import EvaluationContext
from poolsieve.evaluation.detection_measures import ImageCounts
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.experiments import time_scheme
from poolsieve.evaluation.mixtures import Mixture, draw_mixture, no_images
from poolsieve.evaluation.recorded_splits import Resolution
from poolsieve.evaluation.results import EvaluationRow, FrontierPoint, TimingRow, sensitivity_at
from poolsieve.evaluation.scheme_runs import SchemeRun
from poolsieve.progress import Reporter
from poolsieve.schemes import Scheme
from poolsieve.schemes.scheme import SCHEMES

TIMED = (*SCHEMES, "classo", "mip", "auto")
"""Methods whose wall-clock time is taken."""
_FRONTIER_NEAR = 0.01
_NEW_POOLS = 5
"""Time of a method at the first prevalence, where all pools are new, in terms of what it takes later."""


@dataclass(frozen=True)
class ComparedMethods:
    """What all methods found.

    Attributes:
        rows: Every method at every prevalence.
        frontier: Cost against sensitivity, at some prevalences.
        timings: Wall-clock times.
        image_counts: How often each image was drawn and flagged, by method, for each prevalence.
    """

    rows: list[EvaluationRow]
    frontier: list[FrontierPoint]
    timings: list[TimingRow]
    image_counts: dict[str, list[ImageCounts]]


def compare(
    competitors: Sequence[Competitor],
    networks: Mapping[NetworkKind, Resolution],
    plan: EvaluationPlan,
    reporter: Reporter,
) -> ComparedMethods:
    """Tune every method on one split, if there is one to tune on, and measure it on the other.

    Args:
        competitors: The methods, individual testing first.
        networks: What each kind of methods runs; "whole" is always there.
        plan: What to do.
        reporter: Told how far it is.
    """
    rows: list[EvaluationRow] = []
    frontier: list[FrontierPoint] = []
    timings: list[TimingRow] = []
    image_counts: dict[str, list[ImageCounts]] = {competitor.name: [] for competitor in competitors}
    full = networks["whole"]
    whole = full.bundle.config.cost.whole
    shown = _frontier_prevalences(plan.prevalences)
    steps = [_NEW_POOLS] + [1] * (len(plan.prevalences) - 1)
    with reporter.task("methods", sum(steps) * len(competitors)) as task:
        for prevalence, step in zip(plan.prevalences, steps, strict=True):
            mixtures = [
                no_images(prevalence)
                if recorded is None
                else draw_mixture(
                    recorded.images.labels, prevalence, number, np.random.default_rng([plan.seed, split])
                )
                for split, (recorded, number) in enumerate(
                    ((full.tuning, plan.tuning_draws), (full.measuring, plan.images))
                )
            ]
            floor = 1.0
            for competitor in competitors:
                part = networks[competitor.networks]
                setup = competitor.prepare(part.context(part.tuning, mixtures[0], plan.seed))
                context = part.context(part.measuring, mixtures[1], plan.seed)
                run = context.run(setup.scheme)
                counted = run.image_counts(mixtures[1])
                rows.append(_row(competitor, setup, run, counted, mixtures[1], whole))
                image_counts[competitor.name].append(counted)
                if competitor.name == "individual":
                    floor = rows[-1].detection.specificity.value
                if prevalence in shown:
                    frontier += _frontier(competitor, setup, run, context, floor, whole)
                if competitor.name in TIMED and plan.timing_images:
                    timings += _timing(competitor, setup.scheme, part, mixtures[1], plan, timings)
                task.advance(step, note=f"p = {prevalence:g}, {competitor.title}")
    return ComparedMethods(rows, frontier, timings, image_counts)


def _row(
    competitor: Competitor, setup: Setup, run: SchemeRun, counted: ImageCounts, mixture: Mixture, whole: int
) -> EvaluationRow:
    meter, images = run.meter, len(mixture)
    return EvaluationRow(
        prevalence=mixture.prevalence,
        method=competitor.name,
        title=competitor.title,
        half=competitor.half,
        scheme=str(setup.scheme),
        tuned=setup.tuned,
        images=images,
        distinct_bad=int((counted.draws[counted.bad] > 0).sum()),
        distinct_clear=int((counted.draws[~counted.bad] > 0).sum()),
        detection=counted.detection(),
        cost=meter.multiply_adds / (images * whole),
        pools=meter.runs["pools"] / images,
        retests=meter.runs["retests"] / images,
        decoding=1000 * meter.seconds.get("decoding", 0.0) / images,
    )


def _frontier(
    competitor: Competitor, setup: Setup, run: SchemeRun, context: EvaluationContext, floor: float, whole: int
) -> list[FrontierPoint]:
    runs: dict[Scheme, SchemeRun] = {setup.scheme: run}
    for scheme in competitor.variants(context):
        if scheme not in runs:
            runs[scheme] = context.run(scheme)
    mixture = context.mixture
    return [
        FrontierPoint(
            prevalence=mixture.prevalence,
            method=competitor.name,
            title=competitor.title,
            scheme=str(scheme),
            cost=run.meter.multiply_adds / (len(mixture) * whole),
            specificity=floor,
            sensitivity=sensitivity_at(mixture, run.ranks(), floor),
            chosen=scheme == setup.scheme,
        )
        for scheme, run in runs.items()
    ]


def _frontier_prevalences(prevalences: Sequence[float]) -> set[float]:
    """The smallest, the largest, and the one nearest to 1%."""
    near = min(prevalences, key=lambda p: abs(np.log(p / _FRONTIER_NEAR)))
    return {min(prevalences), near, max(prevalences)}


def _timing(
    competitor: Competitor,
    scheme: Scheme,
    part: Resolution,
    mixture: Mixture,
    plan: EvaluationPlan,
    earlier: Sequence[TimingRow],
) -> list[TimingRow]:
    number = min(plan.timing_images, len(mixture))
    for row in earlier:
        if row.method == competitor.name == "individual":  # its time does not depend on the prevalence
            return [replace(row, prevalence=mixture.prevalence)]
    files = [part.measuring.images.files[k] for k in mixture.images[:number]]
    seconds, threads = time_scheme(part.bundle, part.reading_engine, scheme, files, plan.seed)
    return [TimingRow(mixture.prevalence, competitor.name, competitor.title, number, seconds, threads)]
