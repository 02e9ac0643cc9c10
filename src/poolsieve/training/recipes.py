"""Settings that go together: what works on a small machine, and what the paper did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from poolsieve.training.settings import PARTS, Optimization, OutlierSettings, TrainingSettings
from poolsieve.view_settings import PAPER_POOLED

PAPER_OPTIMIZATION = Optimization(
    optimizer="sgd",
    learning_rate=1e-3,
    pretrained_rate=1.0,
    schedule="constant",
    weight_decay=1e-4,
    momentum=0.9,
    label_smoothing=0.0,
    dropout=0.0,
    averaging=0.0,
)
"""SGD with learning rate .001, momentum .9 and weight decay 1e-4 ("Training" of the paper)."""
PAPER_EPOCHS = 90
DEFAULT_FRONT_EPOCHS = 6
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {
        "merge": "max",
        "counting": "separate",
        "front": "whole",
        "front_learns_from": "pools",
        "front_epochs": PAPER_EPOCHS,
        "individual_epochs": 0,
        "epochs": 0,
        "pools_per_epoch": 6248,
        "batch_pools": 8,  # 64 images: the whole of EfficientNet-Lite0 then learns in less than 16 GB
        "view_settings": PAPER_POOLED,
        "optimization": PAPER_OPTIMIZATION,
        "balance": "flagged",
        "outliers": OutlierSettings(
            reading="density",
            clusters=(1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 25, 30),
            mixture_passes=25,
            histogram_pools=16_666,
            histogram_images=5000,
        ),
    },
}
ON_REQUEST = ("outliers", "glance")
"""Parts that a run only has if it is asked for them; a recipe says what they are then."""


def make_settings(recipe: str = "default", **changes: Any) -> TrainingSettings:
    """A recipe with some settings changed.

    "default" is what works best on a small machine: the front stays as it is. If `changes` let it learn, it
    learns for a few epochs first.

    "paper" trains the whole network on images drawn anew each epoch by SGD for 90 epochs, with the plain
    maximum. It departs from the paper in what follows from one front that all networks share, so that
    retests can use its features:

    * The paper trains each network on its own; here the front learns from the sum of their losses.
    * The individual network sees single images taken from the pools of a step, rotated like them and
      balanced within the step, not epochs of its own that are only flipped.
    * One epoch is selected for all networks, by the score on validation pools.
    * The loss of the gate's cheap head, which the paper does not have, reaches the front.

    Args:
        recipe: "default" or "paper".
        changes: Settings of `TrainingSettings` that replace those of the recipe. A mapping in the place of a
            part, such as `glance={"epochs": 4}`, changes single settings of it. With `tune_from` the front is
            tuned.
    """
    if recipe not in RECIPES:
        raise ValueError(f"there is no recipe {recipe!r}; give {' or '.join(map(repr, RECIPES))}")
    base = RECIPES[recipe]
    settings = {**{name: value for name, value in base.items() if name not in ON_REQUEST}, **changes}
    if changes.get("tune_from") is not None:
        settings["front"] = changes.get("front", "tuned")
    for name, part in PARTS.items():
        if isinstance(settings.get(name), Mapping):
            settings[name] = replace(base.get(name, part()), **settings[name])
    frozen = settings.get("front", "frozen") == "frozen"
    if recipe == "paper" and frozen:
        epochs = {"front_epochs": 0, "individual_epochs": PAPER_EPOCHS, "epochs": PAPER_EPOCHS}
    else:
        epochs = {"front_epochs": DEFAULT_FRONT_EPOCHS} if recipe == "default" and not frozen else {}
    kept = {name: value for name, value in epochs.items() if name not in changes}
    return TrainingSettings(**{**settings, **kept})
