"""Repeating the paper's experiments with any bundle on any labelled images."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.calibration import confusion_counts, roc_curve
from poolsieve.engines.resolution import at_resolution
from poolsieve.evaluation.competitors import Competitor, Setup, choose_competitors
from poolsieve.evaluation.experiments import read_two_objects, time_scheme
from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, hold_cache, record_images
from poolsieve.evaluation.ground import Ground, ReadPools, calibrate_on, read_drawn_pools
from poolsieve.evaluation.image_metrics import ImageTally
from poolsieve.evaluation.mixtures import Mixture, bad_draws, draw_mixture
from poolsieve.evaluation.pool_memory import PoolMemory
from poolsieve.evaluation.provenance import describe_data, describe_run
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.evaluation.results import (
    ConfusionTable,
    Evaluation,
    EvaluationRow,
    FrontierPoint,
    ImageErrors,
    TimingRow,
    TwoObjects,
    savings,
    sensitivity_at,
)
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.evaluation.trials import Trial
from poolsieve.images.datasets import SPLITS, ImageDataset
from poolsieve.progress import Reporter
from poolsieve.schemes import Evidence, Scheme

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.base import Engine

LEAST_TUNING = 20_000
LEAST_TUNING_BAD = 100
LEAST_AUC = 0.6
"""Below this the individual network does not know the task."""
CONFUSION_POOLS = 2000
TWO_OBJECT_POOLS = 100
"""As many as in the paper."""
TIMED = ("individual", "dorfman", "mip", "cascade", "adaptive", "auto")
"""Methods whose wall-clock time is taken."""
SHOWN_ERRORS = 12
_FRONTIER_NEAR = 0.01
_POOLS_FILE = "pools.log"


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate.

    Attributes:
        prevalences: Shares of bad images.
        images: Draws at each prevalence.
        tuning_images: Draws of validation images at each prevalence, to tune on; None for `LEAST_TUNING`, and
            at least as many as hold `LEAST_TUNING_BAD` bad ones.
        methods: Names of the methods; None for all.
        split: Split to measure on.
        tuning_split: Split to tune on.
        seed: Makes the run repeatable.
        timing_images: Images to take the time of; 0 takes none.
        any_task: Go on although the bundle does not seem to know the task.
    """

    prevalences: tuple[float, ...] = PAPER_PREVALENCES
    images: int = 100_000
    tuning_images: int | None = None
    methods: tuple[str, ...] | None = None
    split: str = "test"
    tuning_split: str = "val"
    seed: int = 0
    timing_images: int = 500
    any_task: bool = False

    def check(self) -> list[Competitor]:
        """The methods; raises ValueError, before long work, if the plan cannot be followed."""
        for name in (self.split, self.tuning_split):
            if name not in SPLITS:
                raise ValueError(f"there is no split {name!r}; the splits are {', '.join(SPLITS)}")
        if self.split == self.tuning_split:
            raise ValueError(
                f"tuning and measuring on the same split {self.split!r} flatters; name two different ones"
            )
        if not self.prevalences:
            raise ValueError("name at least one prevalence")
        for prevalence in self.prevalences:
            for images in (self.images, self.tuning_draws(prevalence)):
                bad_draws(prevalence, images)
        if self.timing_images < 0:
            raise ValueError(f"timing_images is {self.timing_images}; give a number from 0 on")
        return choose_competitors(self.methods)

    def tuning_draws(self, prevalence: float) -> int:
        """Draws of validation images at a prevalence."""
        if self.tuning_images is not None:
            return self.tuning_images
        return max(LEAST_TUNING, round(LEAST_TUNING_BAD / max(prevalence, 1e-6)))


@dataclass(frozen=True)
class _Site:
    """Recorded images of one split at one resolution."""

    images: LabelledImages
    records: ImageRecords
    networks: RecordedNetworks

    def read_pools(self, sizes: Sequence[int], number: int, seed: int, gated: bool) -> dict[int, ReadPools]:
        return {
            size: read_drawn_pools(
                self.networks,
                self.images.labels,
                size,
                number,
                np.random.default_rng([seed, size]),
                gated=gated,
            )
            for size in sizes
        }


@dataclass(frozen=True)
class _Resolution:
    """A bundle at one resolution with both splits."""

    bundle: Bundle
    engine: Engine
    evidence: Evidence
    tuning: _Site
    measuring: _Site

    def ground(self, site: _Site, mixture: Mixture, seed: int) -> Ground:
        config = self.bundle.config
        return Ground(
            site.networks,
            self.evidence,
            config.cost,
            config.pool_sizes,
            config.merge == "gated",
            mixture,
            seed,
        )


def evaluate(
    bundle: Bundle,
    dataset: ImageDataset,
    plan: EvaluationPlan,
    *,
    engine: str = "auto",
    threads: int | None = None,
    cache_dir: Path,
    reporter: Reporter | None = None,
    data_name: str = "",
) -> Evaluation:
    """Compare all methods on mixtures of labelled images.

    What the networks say of images and pools is kept in `cache_dir`, so that a run which was interrupted goes
    on where it stopped and ends with the same numbers.

    Args:
        bundle: What to evaluate.
        dataset: Labelled images with splits.
        plan: What to do.
        engine: Runs the networks; see `poolsieve.engines.open_engine`.
        threads: Threads that it computes on.
        cache_dir: Folder of all caches.
        reporter: Told how far it is.
        data_name: What to call the data in the report.

    Raises:
        ValueError: The plan, the data or the bundle do not fit; the message says what to do.
    """
    from poolsieve.engines import open_engine

    begin = time.monotonic()
    reporter = reporter or Reporter(quiet=True)
    competitors = plan.check()
    usual = bundle.config.kind == "classification"
    if not usual:
        # Densities of feature vectors hold at one resolution only.
        competitors = [competitor for competitor in competitors if not competitor.half]
    splits = [_images_of(dataset, name) for name in (plan.tuning_split, plan.split)]
    with ExitStack() as held:

        def open_at(part: Bundle) -> _Resolution:
            opened = open_engine(part, engine, threads=threads)
            tuning, measuring = (_open_site(held, cache_dir, opened, part, s, reporter) for s in splits)
            return _Resolution(part, opened, Evidence(part.calibration), tuning, measuring)

        full = open_at(bundle)
        auc = _require_knowledge(full.measuring, bundle, plan)
        sizes = {False: full}
        if any(competitor.half for competitor in competitors):
            sizes[True] = _recalibrated(
                open_at(at_resolution(bundle, bundle.config.input_size // 2)), plan.seed
            )
        rows, frontier, timings, tallies = _compare(competitors, sizes, plan, reporter)
        confusions = [_confusion(part, half, plan) for half, part in sizes.items()]
        two = _two_objects(full, plan) if usual else None
        engine_name = full.engine.name
    shown = _shown_method(rows)
    missed, false_flags = _errors(tallies[shown], splits[1])
    title = next(row.title for row in rows if row.method == shown)
    return Evaluation(
        task=bundle.config.task,
        bundle=bundle.name,
        rows=tuple(rows),
        frontier=tuple(frontier),
        timings=tuple(timings),
        confusions=tuple(table for tables in confusions for table in tables),
        two_objects=two,
        errors_of=title,
        missed=missed,
        false_flags=false_flags,
        notes=tuple(describe_data(dataset, bundle, plan, sizes[True].bundle if True in sizes else None, auc)),
        provenance=describe_run(
            bundle,
            dataset,
            plan,
            engine=engine_name,
            data_name=data_name,
            seconds=time.monotonic() - begin,
        ),
    )


def _images_of(dataset: ImageDataset, split: str) -> LabelledImages:
    positions = dataset.of_split(split)
    return LabelledImages(
        split,
        [dataset.files[i] for i in positions],
        [dataset.digests[i] for i in positions],
        dataset.labels[positions],
    )


def _open_site(
    held: ExitStack,
    cache_dir: Path,
    engine: Engine,
    bundle: Bundle,
    images: LabelledImages,
    reporter: Reporter,
) -> _Site:
    folder = held.enter_context(hold_cache(cache_folder(cache_dir, engine, images)))
    named = replace(images, name=f"{images.name}, {bundle.config.input_size} px")
    records = record_images(folder, engine, named, reporter)
    memory = held.enter_context(PoolMemory(folder / _POOLS_FILE))
    return _Site(images, records, RecordedNetworks(records, engine, memory))


def _require_knowledge(site: _Site, bundle: Bundle, plan: EvaluationPlan) -> float:
    logits = site.records.logits.astype(np.float64)
    auc = roc_curve(logits[:, 1] - logits[:, 0], site.images.labels).auc
    if auc < LEAST_AUC and not plan.any_task:
        raise ValueError(
            f"the bundle {bundle.name} (task {bundle.config.task}) hardly tells the flagged images of split "
            f"{plan.split} from the ordinary ones: its individual network has AUC {auc:.3f}. It was made for "
            "another task, or labels are swapped; --any-task evaluates it all the same"
        )
    return auc


def _recalibrated(part: _Resolution, seed: int) -> _Resolution:
    config = part.bundle.config
    pools = part.tuning.read_pools(config.pool_sizes, CONFUSION_POOLS, seed, config.merge == "gated")
    calibration = calibrate_on(part.tuning.records, part.tuning.images.labels, pools)
    return replace(part, evidence=Evidence(calibration), bundle=replace(part.bundle, calibration=calibration))


def _compare(
    competitors: Sequence[Competitor],
    sizes: Mapping[bool, _Resolution],
    plan: EvaluationPlan,
    reporter: Reporter,
) -> tuple[list[EvaluationRow], list[FrontierPoint], list[TimingRow], dict[str, list[ImageTally]]]:
    rows: list[EvaluationRow] = []
    frontier: list[FrontierPoint] = []
    timings: list[TimingRow] = []
    tallies: dict[str, list[ImageTally]] = {competitor.name: [] for competitor in competitors}
    full = sizes[False]
    whole = full.bundle.config.cost.whole
    shown = _frontier_prevalences(plan.prevalences)
    with reporter.task("methods", len(plan.prevalences) * len(competitors)) as task:
        for prevalence in plan.prevalences:
            mixtures = [
                draw_mixture(
                    site.images.labels,
                    prevalence,
                    number,
                    np.random.default_rng([plan.seed, split, round(prevalence * 1e9)]),
                )
                for split, (site, number) in enumerate(
                    ((full.tuning, plan.tuning_draws(prevalence)), (full.measuring, plan.images))
                )
            ]
            floor = 1.0
            for competitor in competitors:
                part = sizes[competitor.half]
                setup = competitor.prepare(part.ground(part.tuning, mixtures[0], plan.seed))
                ground = part.ground(part.measuring, mixtures[1], plan.seed)
                trial = ground.run(setup.scheme)
                tally = trial.tally(mixtures[1])
                rows.append(_row(competitor, setup, trial, tally, mixtures[1], whole))
                tallies[competitor.name].append(tally)
                if competitor.name == "individual":
                    floor = rows[-1].detection.specificity.value
                if prevalence in shown:
                    frontier += _frontier(competitor, setup, trial, ground, floor, whole)
                if competitor.name in TIMED and plan.timing_images:
                    timings += _timing(competitor, setup.scheme, part, mixtures[1], plan, timings)
                task.advance(note=f"p = {prevalence:g}, {competitor.title}")
    return rows, frontier, timings, tallies


def _row(
    competitor: Competitor, setup: Setup, trial: Trial, tally: ImageTally, mixture: Mixture, whole: int
) -> EvaluationRow:
    meter, images = trial.meter, len(mixture)
    return EvaluationRow(
        prevalence=mixture.prevalence,
        method=competitor.name,
        title=competitor.title,
        half=competitor.half,
        scheme=str(setup.scheme),
        tuned=setup.tuned,
        images=images,
        distinct_bad=int((tally.draws[tally.bad] > 0).sum()),
        distinct_clear=int((tally.draws[~tally.bad] > 0).sum()),
        detection=tally.detection(),
        cost=meter.multiply_adds / (images * whole),
        pools=meter.pools / images,
        retests=meter.retests / images,
        decoding=1000 * meter.seconds.get("decoding", 0.0) / images,
    )


def _frontier(
    competitor: Competitor, setup: Setup, trial: Trial, ground: Ground, floor: float, whole: int
) -> list[FrontierPoint]:
    trials: dict[Scheme, Trial] = {setup.scheme: trial}
    for scheme in competitor.variants(ground):
        if scheme not in trials:
            trials[scheme] = ground.run(scheme)
    mixture = ground.mixture
    return [
        FrontierPoint(
            prevalence=mixture.prevalence,
            method=competitor.name,
            title=competitor.title,
            scheme=str(scheme),
            cost=tried.meter.multiply_adds / (len(mixture) * whole),
            specificity=floor,
            sensitivity=sensitivity_at(mixture, tried.ranks(), floor),
            chosen=scheme == setup.scheme,
        )
        for scheme, tried in trials.items()
    ]


def _frontier_prevalences(prevalences: Sequence[float]) -> set[float]:
    """The smallest, the largest, and the one nearest to 1%."""
    near = min(prevalences, key=lambda p: abs(np.log(p / _FRONTIER_NEAR)))
    return {min(prevalences), near, max(prevalences)}


def _timing(
    competitor: Competitor,
    scheme: Scheme,
    part: _Resolution,
    mixture: Mixture,
    plan: EvaluationPlan,
    earlier: Sequence[TimingRow],
) -> list[TimingRow]:
    number = min(plan.timing_images, len(mixture))
    for row in earlier:
        if row.method == competitor.name == "individual":  # its time does not depend on the prevalence
            return [replace(row, prevalence=mixture.prevalence)]
    files = [part.measuring.images.files[k] for k in mixture.images[:number]]
    seconds, threads = time_scheme(part.bundle, part.engine, scheme, files, plan.seed)
    return [TimingRow(mixture.prevalence, competitor.name, competitor.title, number, seconds, threads)]


def _confusion(part: _Resolution, half: bool, plan: EvaluationPlan) -> list[ConfusionTable]:
    config = part.bundle.config
    pools = part.measuring.read_pools(
        config.pool_sizes, CONFUSION_POOLS, plan.seed + 1, config.merge == "gated"
    )
    tables = []
    for size, read in pools.items():
        table = confusion_counts(read.counts, read.read, size)
        tables.append(ConfusionTable(size, half, tuple(tuple(row) for row in table.tolist())))
    return tables


def _two_objects(part: _Resolution, plan: EvaluationPlan) -> TwoObjects:
    images = part.measuring.images
    bad, ordinary = (
        [images.files[int(k)] for k in np.flatnonzero(images.labels == label)] for label in (1, 0)
    )
    return read_two_objects(
        part.engine,
        part.evidence,
        bad,
        ordinary,
        max(part.bundle.config.pool_sizes),
        TWO_OBJECT_POOLS,
        np.random.default_rng([plan.seed, 2]),
    )


def _shown_method(rows: Sequence[EvaluationRow]) -> str:
    """The method that saves most often; individual testing if none does."""
    best = [saving.best.method for saving in savings(rows) if saving.best is not None]
    return max(dict.fromkeys(best), key=best.count) if best else "individual"


def _errors(
    tallies: Sequence[ImageTally], images: LabelledImages
) -> tuple[tuple[ImageErrors, ...], tuple[ImageErrors, ...]]:
    """Images that were most often missed, and most often falsely flagged, over all prevalences."""
    draws, flags = (np.zeros(len(images), dtype=np.int64) for _ in range(2))
    for tally in tallies:
        draws[: len(tally.draws)] += tally.draws
        flags[: len(tally.flags)] += tally.flags
    bad = images.labels == 1
    found = []
    for group, wrong in ((bad, draws - flags), (~bad, flags)):
        share: NDArray[np.float64] = np.where(group & (draws > 0), wrong / np.maximum(draws, 1), 0.0)
        order = np.lexsort((-wrong, -share))[:SHOWN_ERRORS]
        found.append(
            tuple(ImageErrors(images.files[k], int(draws[k]), int(wrong[k])) for k in order if share[k] > 0)
        )
    return found[0], found[1]
