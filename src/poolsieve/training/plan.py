"""What a training run does: every setting in one place, and the recipes that set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolsieve.images.transforms import PAPER_POOLED, Squaring, ViewSettings
from poolsieve.training.sampling import check_shares, pool_shares

MAX_POOL_SIZE = 256
"""Merging keeps in one byte which image of a pool was the largest."""

Merge = Literal["gated", "max"]
Counting = Literal["shared", "separate"]
Front = Literal["frozen", "tuned", "whole"]
LearnsFrom = Literal["images", "pools"]
Selection = Literal["accuracy", "likelihood"]
Optimizer = Literal["adamw", "sgd"]
Schedule = Literal["one-cycle", "constant"]
Reading = Literal["combined", "density"]


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; give {wanted}")


@dataclass(frozen=True)
class Optimization:
    """How weights are moved.

    Attributes:
        optimizer: "adamw" or "sgd".
        learning_rate: The highest rate of a one-cycle schedule, or the rate of a constant one.
        pretrained_rate: Share of that rate for layers that come with pretrained weights; new layers learn at
            the full rate.
        schedule: "one-cycle" rises for a fifth of the steps and then falls to nothing; "constant" stays.
        weight_decay: Pull of the weights towards 0.
        momentum: Momentum of SGD.
        label_smoothing: Share of each target spread over all classes.
        dropout: Share of the last features dropped while training.
        averaging: Decay of the moving average of weights that is judged and kept; 0 keeps the weights.
    """

    optimizer: Optimizer = "adamw"
    learning_rate: float = 1e-3
    pretrained_rate: float = 0.4
    schedule: Schedule = "one-cycle"
    weight_decay: float = 0.02
    momentum: float = 0.9
    label_smoothing: float = 0.02
    dropout: float = 0.2
    averaging: float = 0.99

    def __post_init__(self) -> None:
        _require(self.optimizer in ("adamw", "sgd"), "optimizer", self.optimizer, "'adamw' or 'sgd'")
        _require(
            self.schedule in ("one-cycle", "constant"), "schedule", self.schedule, "'one-cycle' or 'constant'"
        )
        _require(self.learning_rate > 0, "learning_rate", self.learning_rate, "a number above 0")
        _require(0 < self.pretrained_rate <= 1, "pretrained_rate", self.pretrained_rate, "a number in (0, 1]")
        _require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "a number from 0 on")
        for name in ("momentum", "label_smoothing", "dropout", "averaging"):
            _require(0 <= getattr(self, name) < 1, name, getattr(self, name), "a number in [0, 1)")


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


@dataclass(frozen=True)
class OutlierSettings:
    """How off-topic images are told by the density of features (paper, "Pooled Deep Outlier Detection").

    Attributes:
        reading: "combined" weighs density and the networks' own logits as validation data suggest; "density"
            is the paper's: the density alone.
        clusters: Numbers K of Gaussians to choose from.
        mixture_pools: On-topic training pools that a mixture is fitted to, M.
        histogram_pools: Validation pools of each count that say what scores mean.
        largest_count: The largest count t that the histogram tells.
        bins: Bins Q of the histogram.
    """

    reading: Reading = "combined"
    clusters: tuple[int, ...] = (1, 2, 3, 5, 8, 12)
    mixture_pools: int = 3000
    histogram_pools: int = 600
    largest_count: int = 5
    bins: int = 500

    def __post_init__(self) -> None:
        _require(self.reading in ("combined", "density"), "reading", self.reading, "'combined' or 'density'")
        if not self.clusters or any(number < 1 for number in self.clusters):
            raise ValueError(f"clusters is {list(self.clusters)}; give whole numbers from 1 on")
        for name in ("mixture_pools", "histogram_pools"):
            _require(getattr(self, name) >= 10, name, getattr(self, name), "10 or more")
        for name in ("largest_count", "bins"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "a whole number from 1 on")


@dataclass(frozen=True)
class GlanceSettings:
    """How the glance is trained: the small network that looks at shrunken images first.

    Attributes:
        shrink: How many times smaller height and width become.
        stop: Its copy of the backbone ends after this cut point; None copies all of it.
        epochs: Epochs of balanced images, each drawn anew.
        batch_images: Images in a step.
    """

    shrink: int = 2
    stop: str | None = None
    epochs: int = 8
    batch_images: int = 64

    def __post_init__(self) -> None:
        for name, least in (("shrink", 1), ("epochs", 1), ("batch_images", 2)):
            _require(getattr(self, name) >= least, name, getattr(self, name), f"{least} or more")


@dataclass(frozen=True)
class TrainingPlan:
    """All settings of one training run.

    Attributes:
        backbone: Name of the backbone.
        cut: Cut point between front and back; None takes the backbone's own.
        weights: File of pretrained weights; None takes those that come with the backbone.
        pool_sizes: Pool sizes r to train a counting network for.
        counting: With several pool sizes: "shared" trains one network that counts in pools of every size,
            "separate" one for each. With one size they are the same.
        merge: "gated" multiplies features by a learnt gate before the maximum, "max" is the paper's.
        front: "frozen" keeps the pretrained front, "tuned" trains its last blocks, "whole" all of it.
        tune_from: With "tuned": features up to this cut point stay as they are.
        front_learns_from: "images" trains a front that learns with the individual network and the cheap head
            on single images, "pools" with all networks on pools. A step on a pool of 8 costs about as much as
            one on 5 images.
        gate_width: Channels inside the gate; its cost is nearly proportional to it.
        tallies: Let the counting networks hear from the gate how many images of a pool look bad, beside what
            they see in the merged features.
        squaring: "pad" or "stretch"; None takes what fits the shapes of the training images.
        views: Cached views of each training image, the plain one among them.
        fresh_views: Views of each training image drawn anew for every epoch of the counting networks,
            in place of the cached ones but for the plain one; 0 keeps to those. Where training accuracy rises
            while validation stands still, fresh views help; they cost a pass of every image through the front
            in every epoch.
        view_settings: How the other views are drawn.
        rotate_test: Rotate validation and test images at random too, as the paper does for knives.
        front_epochs: Epochs in which a front that learns is trained together with all networks.
        individual_epochs: Epochs of the individual network on the frozen front; 0 keeps what the front's
            phase made.
        epochs: Epochs of each counting network on the frozen front; 0 likewise.
        pools_per_epoch: Training pools of one epoch, equally many of each size that a network serves.
        batch_images: Images in a step of the individual network.
        batch_pools: Pools in a step of a counting network.
        shares: Shares of pools with 0..r bad images, for the largest pool size; None takes the paper's.
        head_weight: Weight of the image logit's loss beside that of the count.
        count_smoothing: Share of a count's target given to its two neighbours, so that a reading that is
            wrong by one costs less than one that is wrong by many.
        clean_share: Least share of clean validation pools, of a network's largest size, that are to be read
            as 0. Where they are fewer after training, the bias of count 0 is raised; None leaves it. Clean
            pools that are not read so cost retests, while a higher bias misses more bad images.
        validation_pools: Fixed pools by which the best epoch is selected.
        test_pools: Pools of the test split that are reported.
        prevalence: Prevalence p in the selection of the best epoch.
        select_by: "accuracy" selects by the paper's Σ Binom(r, p, k) Acc_k, "likelihood" by the mean
            log-likelihood of the true counts, weighted alike. Where counting is hard, accuracy favours an
            early network that calls most pools clean; the likelihood sees that a later one tells more.
        optimization: How weights are moved.
        outliers: How off-topic images are told by the density of features; None for plain classification.
        glance: How the small network for the first look is trained; None makes none.
        compile: Let torch compile the networks' steps; needs a C++ compiler, takes about a minute for each
            network, and is then up to twice as fast. Weights differ in the last digits from those without.
        seed: Seed of everything random.
    """

    backbone: str = "efficientnet-lite0"
    cut: str | None = None
    weights: str | None = None
    pool_sizes: tuple[int, ...] = (8,)
    counting: Counting = "shared"
    merge: Merge = "gated"
    front: Front = "frozen"
    tune_from: str | None = None
    front_learns_from: LearnsFrom = "images"
    gate_width: int = 64
    tallies: bool = False
    squaring: Squaring | None = None
    views: int = 6
    fresh_views: int = 0
    view_settings: ViewSettings = field(default_factory=ViewSettings)
    rotate_test: bool = False
    front_epochs: int = 0
    individual_epochs: int = 4
    epochs: int = 20
    pools_per_epoch: int = 4000
    batch_images: int = 32
    batch_pools: int = 32
    shares: tuple[float, ...] | None = None
    head_weight: float = 0.5
    count_smoothing: float = 0.0
    clean_share: float | None = None
    validation_pools: int = 1000
    test_pools: int = 4000
    prevalence: float = 0.1
    select_by: Selection = "accuracy"
    optimization: Optimization = field(default_factory=Optimization)
    outliers: OutlierSettings | None = None
    glance: GlanceSettings | None = None
    compile: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.merge in ("gated", "max"), "merge", self.merge, "'gated' or 'max'")
        if self.tallies and self.merge == "max":
            raise ValueError("the plain maximum has no gate to tally: use merge='gated' or no tallies")
        if self.clean_share is not None:
            _require(0 < self.clean_share < 1, "clean_share", self.clean_share, "a number between 0 and 1")
            if self.outliers is not None:
                raise ValueError(
                    "clean_share is for classification: off-topic pools are read by their density"
                )
        _require(self.counting in ("shared", "separate"), "counting", self.counting, "'shared' or 'separate'")
        _require(
            self.front in ("frozen", "tuned", "whole"), "front", self.front, "'frozen', 'tuned' or 'whole'"
        )
        _require(
            self.squaring in ("pad", "stretch", None), "squaring", self.squaring, "'pad', 'stretch' or None"
        )
        if (self.front == "tuned") != (self.tune_from is not None):
            raise ValueError(
                "a front is tuned from a cut point: give tune_from with front='tuned', and only then"
            )
        sizes = self.pool_sizes
        if (
            not sizes
            or any(not 2 <= size <= MAX_POOL_SIZE for size in sizes)
            or len(set(sizes)) != len(sizes)
        ):
            raise ValueError(
                f"pool sizes are {list(sizes)}; give different whole numbers from 2 to {MAX_POOL_SIZE}"
            )
        _require(
            self.front_learns_from in ("images", "pools"),
            "front_learns_from",
            self.front_learns_from,
            "'images' or 'pools'",
        )
        _require(
            self.select_by in ("accuracy", "likelihood"),
            "select_by",
            self.select_by,
            "'accuracy' or 'likelihood'",
        )
        if self.front != "frozen" and self.front_learns_from == "images" and not self.epochs:
            raise ValueError(
                "a front that learns from images leaves the counting networks to train: give epochs"
            )
        for name in ("views", "validation_pools", "test_pools", "gate_width"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "a whole number from 1 on")
        for name in ("batch_images", "batch_pools", "pools_per_epoch"):  # batch norm needs two in a step
            _require(getattr(self, name) >= 2, name, getattr(self, name), "2 or more")
        for name in ("front_epochs", "individual_epochs", "epochs", "fresh_views", "seed"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "a whole number from 0 on")
        if self.front == "frozen" and (self.front_epochs or not self.individual_epochs or not self.epochs):
            raise ValueError(
                "with a frozen front the individual and counting networks need at least one epoch each, and "
                "the front none"
            )
        if self.front != "frozen" and not self.front_epochs:
            raise ValueError(f"front={self.front!r} trains the front; give it front_epochs")
        _require(0 < self.prevalence < 1, "prevalence", self.prevalence, "a number in (0, 1)")
        _require(0 <= self.count_smoothing < 1, "count_smoothing", self.count_smoothing, "a number in [0, 1)")
        _require(self.head_weight >= 0, "head_weight", self.head_weight, "a number from 0 on")
        if self.shares is not None:
            check_shares(self.shares, max(sizes))

    @property
    def resize_mode(self) -> Squaring:
        """How images become square; the paper pads them, where neither the user nor the data said how."""
        return self.squaring or "pad"

    def shares_of(self, pool_size: int) -> NDArray[np.float64]:
        """Shares of training pools with 0..r bad images. Shape (pool_size + 1,)."""
        if self.shares is not None and pool_size == max(self.pool_sizes):
            return check_shares(self.shares, pool_size)
        return pool_shares(pool_size)

    def to_json(self) -> dict[str, Any]:
        """All settings as plain values."""
        values = asdict(self)
        values["pool_sizes"] = list(self.pool_sizes)
        values["shares"] = None if self.shares is None else list(self.shares)
        if self.outliers is not None:
            values["outliers"]["clusters"] = list(self.outliers.clusters)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingPlan:
        """The reverse of `to_json`; settings that a plan from before them lacks take their defaults.

        Raises:
            ValueError: A setting is unknown or not allowed.
        """
        parts = {
            "view_settings": ViewSettings,
            "optimization": Optimization,
            "outliers": OutlierSettings,
            "glance": GlanceSettings,
        }
        try:
            made = {
                name: parts[name](**_tuples(value)) if name in parts and value is not None else value
                for name, value in _tuples(values).items()
            }
            return cls(**made)
        except TypeError as error:
            raise ValueError(f"this is no plan of a training run: {error}") from error


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def make_plan(recipe: str = "default", **changes: Any) -> TrainingPlan:
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
        changes: Settings of `TrainingPlan` that replace those of the recipe.
    """
    if recipe not in RECIPES:
        raise ValueError(f"there is no recipe {recipe!r}; give {' or '.join(map(repr, RECIPES))}")
    settings = {**RECIPES[recipe], **changes}
    frozen = settings.get("front", "frozen") == "frozen"
    if recipe == "paper" and frozen:
        settings = {**settings, "front_epochs": 0, "individual_epochs": PAPER_EPOCHS, "epochs": PAPER_EPOCHS}
    elif recipe == "default" and not frozen:
        settings["front_epochs"] = DEFAULT_FRONT_EPOCHS
    return TrainingPlan(**{**settings, **changes})


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
    },
}


def differing_settings(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Which settings of two plans (as JSON) differ, as lines `name: old -> new`.

    A plan from before networks were shared between pool sizes had separate ones; other settings that an
    older plan lacks had what is now the default.
    """
    lines = []
    several = len(old.get("pool_sizes", ())) > 1
    counting = "separate" if several else new.get("counting")
    old = {**TrainingPlan().to_json(), "counting": counting, **old}
    for name in [entry.name for entry in fields(TrainingPlan)] + sorted(set(old) - set(new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            lines += [
                f"{name}.{key}: {before.get(key)} -> {after.get(key)}"
                for key in after
                if before.get(key) != after.get(key)
            ]
        else:
            lines.append(f"{name}: {before} -> {after}")
    return lines
