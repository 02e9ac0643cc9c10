"""Repeating the paper's experiments with any bundle on any labelled images."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.calibration import confusion_counts
from poolsieve.engines.resolution import at_resolution
from poolsieve.evaluation.competitors import NetworkKind, pools_per_image
from poolsieve.evaluation.detection_measures import ImageCounts
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.experiments import read_names, read_two_objects
from poolsieve.evaluation.feature_cache import LabelledImages
from poolsieve.evaluation.method_comparison import compare
from poolsieve.evaluation.outlier_refit import (
    UnfitFeaturesError,
    density_alone,
    on_topic,
    refit_outliers,
    why_not,
)
from poolsieve.evaluation.provenance import describe_data, describe_run
from poolsieve.evaluation.recorded_splits import (
    RecordedSplit,
    Resolution,
    images_of,
    open_split,
    recalibrated,
)
from poolsieve.evaluation.results import (
    OFF_TOPIC,
    ConfusionTable,
    Evaluation,
    EvaluationRow,
    ImageErrors,
    TwoObjects,
    Wording,
    savings,
)
from poolsieve.images.datasets import ImageDataset
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel
from poolsieve.statistics import auc

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle

LEAST_AUC = 0.6
"""Below this the individual network does not know the task."""
SHOWN_ERRORS = 12


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
        dataset: Labelled images with those splits that the plan names. An outlier bundle at half size is
            fitted anew to the split train; without it nothing is run at half size.
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
    if bundle.config.glance is None:
        competitors = [competitor for competitor in competitors if not competitor.glances]
    if not bundle.has_recordings or plan.by_density:  # recordings are of the bundle's own reading
        competitors = [competitor for competitor in competitors if not competitor.planned]
    binary = bundle.config.readings == "binary"
    if "binary" not in bundle.config.editions:
        for competitor in competitors if plan.methods is not None else ():
            if competitor.binary:
                raise ValueError(
                    f"{competitor.name} reads binary networks, but {bundle.name} has no binary edition; "
                    "train with --readings both, or leave it out"
                )
        competitors = [competitor for competitor in competitors if not competitor.binary]
    if plan.methods is None:
        most = pools_per_image(bundle.config.pool_sizes)
        competitors = [
            competitor
            for competitor in competitors
            if competitor.least_pools <= most and not (binary and competitor.reads_counts)
        ]
    for competitor in competitors:
        if binary and competitor.reads_counts:
            raise ValueError(
                f"{competitor.name} decodes counts, but the networks of {bundle.name} only tell whether a "
                "pool is clean (train --readings binary); leave it out, or take a bundle that counts"
            )
    outliers = bundle.outliers
    if plan.by_density and outliers is None:
        raise ValueError(f"{bundle.name} is no outlier bundle, so it has no density to read by")
    test = images_of(dataset, plan.split)
    val = None if plan.tuning_split is None else images_of(dataset, plan.tuning_split)
    train = on_topic(images_of(dataset, "train"))
    reason = "" if outliers is None else why_not(train)
    if val is None:
        reason = "there are no validation images to calibrate on"
    if bundle.config.shrink > 1:
        reason = "its networks look at smaller images already"
    with ExitStack() as held:

        def open_at(part: Bundle) -> Resolution:
            opened = open_engine(replace(part, outliers=None), engine, threads=threads)
            tuning = None if val is None else open_split(held, cache_dir, opened, part, val, reporter)
            measuring = open_split(held, cache_dir, opened, part, test, reporter)
            return Resolution(part, opened, LikelihoodModel(part.calibration), tuning, measuring)

        full = open_at(bundle)
        if bundle.has_recordings:
            full = replace(full, recordings=bundle.recordings())
        if plan.by_density and outliers is not None and not outliers.individual.by_density:
            outliers = density_alone(outliers)
            full = recalibrated(full, plan.known_pools, plan.seed, outliers)
        area = _require_knowledge(full.measuring, bundle, plan)
        networks: dict[NetworkKind, Resolution] = {"whole": full}
        if any(competitor.binary for competitor in competitors):
            networks["binary"] = open_at(bundle.edition("binary"))
        if not any(competitor.half for competitor in competitors):
            reason = ""
        elif not reason:
            half = open_at(at_resolution(bundle, bundle.config.input_size // 2))
            try:
                if outliers is not None and half.tuning is not None:
                    learnt = open_split(held, cache_dir, half.engine, half.bundle, train, reporter).records
                    outliers = refit_outliers(
                        outliers,
                        half.engine,
                        learnt,
                        half.tuning.records,
                        half.tuning.images.labels,
                        pools=plan.known_pools,
                        seed=plan.seed,
                    )
                networks["half"] = recalibrated(half, plan.known_pools, plan.seed, outliers)
            except UnfitFeaturesError as error:
                reason = str(error)
        competitors = [competitor for competitor in competitors if competitor.networks in networks]
        compared = compare(competitors, networks, plan, reporter)
        confusions = [_confusion(part, at == "half", plan) for at, part in networks.items() if at != "binary"]
        two = _two_objects(full, plan) if bundle.outliers is None else None
        kinds = _areas_by_score(full)
        engine_name = full.engine.name
    rows = compared.rows
    shown = _shown_method(rows)
    missed, false_flags = _errors(compared.image_counts[shown], test)
    title = next(row.title for row in rows if row.method == shown)
    words = Wording() if bundle.outliers is None else OFF_TOPIC
    return Evaluation(
        task=bundle.config.task,
        bundle=bundle.name,
        rows=tuple(rows),
        frontier=tuple(compared.frontier),
        timings=tuple(compared.timings),
        confusions=tuple(table for tables in confusions for table in tables),
        two_objects=two,
        errors_of=title,
        missed=missed,
        false_flags=false_flags,
        notes=tuple(
            describe_data(
                dataset,
                bundle,
                plan,
                words,
                half=networks["half"].bundle if "half" in networks else None,
                auc=area,
                kinds=kinds,
                why_no_half=reason,
            )
        ),
        provenance=describe_run(
            bundle,
            dataset,
            plan,
            engine=engine_name,
            data_name=data_name,
            seconds=time.monotonic() - begin,
        ),
        wording=words,
    )


def _require_knowledge(recorded: RecordedSplit, bundle: Bundle, plan: EvaluationPlan) -> float:
    logits = recorded.logits
    area = auc(logits[:, 1] - logits[:, 0], recorded.images.labels)
    if area < LEAST_AUC and not plan.any_task:
        raise ValueError(
            f"the bundle {bundle.name} (task {bundle.config.task}) hardly tells the flagged images of split "
            f"{plan.split} from the ordinary ones: its individual network has AUC {area:.3f}. It was made "
            "for another task, or labels are swapped; --any-task evaluates it all the same"
        )
    return area


def _areas_by_score(part: Resolution) -> dict[str, float]:
    """AUC of single images by each score that an outlier bundle weighs; empty for others."""
    if part.bundle.outliers is None:
        return {}
    records, labels = part.measuring.records, part.measuring.images.labels
    kinds = {
        "density alone": part.bundle.outliers.individual.mixture.scores(records.vectors),
        "the network's own output": records.logits[:, 1] - records.logits[:, 0],
        "the cheap head": records.head_logits,
    }
    return {name: auc(values, labels) for name, values in kinds.items()}


def _confusion(part: Resolution, half: bool, plan: EvaluationPlan) -> list[ConfusionTable]:
    """Of pools of the split that is measured on; of an outlier bundle also of pools to tune on."""
    config, outliers = part.bundle.config, part.bundle.outliers
    tables = []
    for recorded in (part.measuring,) if outliers is None else (part.tuning, part.measuring):
        if recorded is None:
            continue
        pools = recorded.read_pools(
            config.pool_sizes, plan.known_pools, plan.seed + 1, config.merge == "gated"
        )
        for size, read in pools.items():
            largest = size if outliers is None else outliers.counting[size].histogram.largest
            few = read.counts <= largest
            table = confusion_counts(read.counts[few], np.minimum(read.read[few], largest), largest)
            tables.append(
                ConfusionTable(size, half, recorded.images.name, tuple(tuple(row) for row in table.tolist()))
            )
    return tables


def _two_objects(part: Resolution, plan: EvaluationPlan) -> TwoObjects | None:
    if plan.two_objects is None:
        return None
    images, config, names = part.measuring.images, part.bundle.config, read_names(plan.two_objects)
    double = np.array([file.name in names for file in images.files]) & (images.labels == 1)
    if not double.any():
        raise ValueError(f"{plan.two_objects} names no flagged image of split {plan.split}")
    if double.sum() == (images.labels == 1).sum():
        raise ValueError(f"{plan.two_objects} names all flagged images of split {plan.split}")
    return read_two_objects(
        part.measuring.networks,
        part.likelihoods,
        images.labels,
        double,
        max(config.pool_sizes),
        plan.two_object_pools,
        np.random.default_rng([plan.seed, 2]),
        gated=config.merge == "gated",
    )


def _shown_method(rows: Sequence[EvaluationRow]) -> str:
    """The method that saves most often; individual testing if none does."""
    best = [saving.best.method for saving in savings(rows) if saving.best is not None]
    return max(dict.fromkeys(best), key=best.count) if best else "individual"


def _errors(
    image_counts: Sequence[ImageCounts], images: LabelledImages
) -> tuple[tuple[ImageErrors, ...], tuple[ImageErrors, ...]]:
    """Images that were most often missed, and most often falsely flagged, over all prevalences."""
    draws, flags = (np.zeros(len(images), dtype=np.int64) for _ in range(2))
    for counts in image_counts:
        draws[: len(counts.draws)] += counts.draws
        flags[: len(counts.flags)] += counts.flags
    bad = images.labels == 1
    found = []
    for group, wrong in ((bad, draws - flags), (~bad, flags)):
        share: NDArray[np.float64] = np.where(group & (draws > 0), wrong / np.maximum(draws, 1), 0.0)
        order = np.lexsort((-wrong, -share))[:SHOWN_ERRORS]
        found.append(
            tuple(ImageErrors(images.files[k], int(draws[k]), int(wrong[k])) for k in order if share[k] > 0)
        )
    return found[0], found[1]
