"""How much work each part of a training run is, from which the time left of all of it is reckoned."""

from __future__ import annotations

from poolsieve.images.datasets import SPLITS, ImageDataset
from poolsieve.networks import multiply_adds
from poolsieve.networks.cost import stage_multiply_adds
from poolsieve.training.models import TrainedModel
from poolsieve.training.plan import TrainingPlan

STEP = 3
"""A training step costs about three passes: one forward, one back for the inputs and one for the weights."""
LAST_PART = "calibration and test"


def features_part(split: str, stop: str) -> str:
    """Name of the part that makes the features of a split after a cut point."""
    return f"features of {split} after {stop}"


def views_part(phase: str) -> str:
    """Name of the part that makes the fresh views of a phase."""
    return f"views of {phase}"


def expected_work(model: TrainedModel, dataset: ImageDataset, plan: TrainingPlan) -> dict[str, float]:
    """Multiply-adds of every part of a run, in the order in which they come; reading images is left out."""
    backbone, cost = model.backbone, multiply_adds(model.backbone, model.gate, model.glance)
    images = {split: len(dataset.of_split(split)) for split in SPLITS}
    bad = int(dataset.labels[dataset.of_split("train")].sum())
    balanced = 2 * min(bad, images["train"] - bad)
    views = {split: plan.views if split == "train" else 1 for split in SPLITS}
    work: dict[str, float] = {}
    if plan.glance is not None:
        work["glance"] = plan.glance.epochs * (STEP * balanced + images["val"]) * cost.glance
    kept = 0  # what is before the learning part of the front
    if plan.tune_from is not None:
        stages, boundary = stage_multiply_adds(backbone), backbone.cut_points.index(plan.tune_from)
        kept = sum(list(stages.values())[: boundary + 1])
        for split in SPLITS:
            work[features_part(split, plan.tune_from)] = images[split] * views[split] * kept
    if plan.front != "frozen":
        learning = cost.front - kept
        judged = images["val"] * (learning + cost.back)
        step = balanced * (learning + cost.back / 2)  # the back sees half of the images
        if plan.front_learns_from == "pools":
            step = plan.pools_per_epoch * (max(plan.pool_sizes) * learning + cost.back)
        work["front"] = plan.front_epochs * (STEP * step + judged)
    learnt_from = SPLITS if plan.individual_epochs or plan.epochs else ("val", "test")
    for split in learnt_from:
        work[features_part(split, backbone.cut)] = images[split] * views[split] * (cost.front - kept)
    if plan.individual_epochs:
        work["individual"] = plan.individual_epochs * (STEP * balanced + images["val"]) * cost.back
    for size in model.own_counting if plan.epochs else ():
        pools = STEP * plan.pools_per_epoch + plan.validation_pools
        work[f"counting-{size}"] = plan.epochs * pools * (cost.back + size * cost.gate)
        if plan.fresh_views:
            work[views_part(f"counting-{size}")] = (
                plan.epochs * images["train"] * plan.fresh_views * cost.front
            )
    pools = (plan.validation_pools + plan.test_pools) * len(plan.pool_sizes)
    work[LAST_PART] = (pools + images["val"] + images["test"]) * cost.back
    return work
