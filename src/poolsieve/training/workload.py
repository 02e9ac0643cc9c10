"""How much work each part of a training run is, from which the time left of all of it is reckoned."""

from __future__ import annotations

from poolsieve.images.datasets import SPLITS, ImageDataset
from poolsieve.networks import multiply_adds, stage_multiply_adds
from poolsieve.networks.trained import TrainedModel
from poolsieve.training.sampling import balanced_number
from poolsieve.training.settings import TrainingSettings

STEP = 3
"""A training step costs about three passes: one forward, one back for the inputs and one for the weights."""
LAST_PART = "calibration and test"


def features_part(split: str, stop: str) -> str:
    """Name of the part that makes the features of a split after a cut point."""
    return f"features of {split} after {stop}"


def views_part(phase: str) -> str:
    """Name of the part that makes the fresh views of a phase."""
    return f"views of {phase}"


def expected_work(model: TrainedModel, dataset: ImageDataset, settings: TrainingSettings) -> dict[str, float]:
    """Multiply-adds of every part of a run, in the order in which they come; reading images is left out."""
    backbone, cost = model.backbone, multiply_adds(model.backbone, model.gate, model.glance, model.tree)
    images = {split: len(dataset.of_split(split)) for split in SPLITS}
    bad = int(dataset.labels[dataset.of_split("train")].sum())
    balanced = 2 * balanced_number(bad, images["train"] - bad, settings)
    views = {split: settings.views if split == "train" else 1 for split in SPLITS}
    work: dict[str, float] = {}
    if settings.glance is not None:
        work["glance"] = settings.glance.epochs * (STEP * balanced + images["val"]) * cost.glance
    kept = 0  # what is before the learning part of the front
    if settings.tune_from is not None:
        stages, boundary = stage_multiply_adds(backbone), backbone.cut_points.index(settings.tune_from)
        kept = sum(list(stages.values())[: boundary + 1])
        for split in SPLITS:
            work[features_part(split, settings.tune_from)] = images[split] * views[split] * kept
    if settings.front != "frozen":
        learning = cost.front - kept
        judged = images["val"] * (learning + cost.back)
        step = balanced * (learning + cost.back / 2)  # the back sees half of the images
        if settings.front_learns_from == "pools":
            step = settings.pools_per_epoch * (max(settings.pool_sizes) * learning + cost.back)
        work["front"] = settings.front_epochs * (STEP * step + judged)
    learnt_from = SPLITS if settings.individual_epochs or settings.epochs else ("val", "test")
    for split in learnt_from:
        work[features_part(split, backbone.cut)] = images[split] * views[split] * (cost.front - kept)
    if settings.individual_epochs:
        work["individual"] = settings.individual_epochs * (STEP * balanced + images["val"]) * cost.back
    for size in model.own_counting if settings.epochs else ():
        pools = STEP * settings.pools_per_epoch + settings.validation_pools
        work[f"counting-{size}"] = settings.epochs * pools * ((cost.pooled or cost.back) + size * cost.gate)
        if settings.fresh_views:
            work[views_part(f"counting-{size}")] = (
                settings.epochs * images["train"] * settings.fresh_views * cost.front
            )
    pools = (settings.validation_pools + settings.test_pools) * len(settings.pool_sizes)
    work[LAST_PART] = (pools + images["val"] + images["test"]) * cost.back
    return work
