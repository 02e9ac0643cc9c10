"""What a training run does: every setting in one place.

A setting's default, limits and help are declared with its field; `poolsieve train` makes its options of them.
This module needs no library, so that the help is there at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from poolsieve.network_forms import Counting, Merge
from poolsieve.parameters import Choice, Interval, Several, check_parameters, parameter
from poolsieve.view_settings import ResizeMode, ViewSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_POOL_SIZE = 256
"""Merging keeps in one byte which image of a pool was the largest."""

_FROM_0 = Interval(low=0, whole=True)
_FROM_1 = Interval(low=1, whole=True)
_FROM_2 = Interval(low=2, whole=True)
_BELOW_1 = Interval(low=0, high=1, open_high=True)
_INSIDE_1 = Interval(low=0, high=1, open_low=True, open_high=True)

LEARNING, FIRST_LOOK = "Learning", "First look"
PANELS = {
    "backbone": "Networks",
    "front": "A front that learns",
    "individual_epochs": LEARNING,
    "pools_per_epoch": "Training pools",
    "views": "Views of images",
    "validation_pools": "Selection and test",
    "optimization": LEARNING,
    "outliers": "Off-topic images",
    "glance": FIRST_LOOK,
}
"""Headings of the help, by the first setting that stands under each."""


def option(
    default: Any,
    help: str,
    allowed: Interval | Several | None = None,
    *,
    name: str | None = None,
    shown: str | None = None,
) -> Any:
    """Declare a setting that can be given on the command line.

    Args:
        default: The default.
        help: What it does. It is the field's documentation, too.
        allowed: What it may be; what is one of a few words says so by its type.
        name: Name of the option where it is not that of the setting; "--a/--b" for a choice of a and b.
        shown: What the help calls the default, where that is more than its value.
    """
    return field(default=default, metadata={"help": help, "allowed": allowed, "name": name, "shown": shown})


def choices(hint: Any) -> tuple[str, ...]:
    """What a setting of this type must be one of; empty if it is none of a few words."""
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()


class _Settings:
    """Settings that are checked as they were declared."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            value, words = getattr(self, name), choices(hint)
            if words and not (value is None and type(None) in get_args(hint)):
                Choice(words).check(type(self).__name__, name, value)
        check_parameters(self)


@dataclass(frozen=True)
class Optimization(_Settings):
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

    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = option(
        1e-3, "Learning rate (its peak, if one-cycle).", Interval(low=0, open_low=True)
    )
    pretrained_rate: float = parameter(0.4, Interval(low=0, high=1, open_low=True))
    schedule: Literal["one-cycle", "constant"] = "one-cycle"
    weight_decay: float = parameter(0.02, Interval(low=0))
    momentum: float = parameter(0.9, _BELOW_1)
    label_smoothing: float = parameter(0.02, _BELOW_1)
    dropout: float = parameter(0.2, _BELOW_1)
    averaging: float = parameter(0.99, _BELOW_1)


@dataclass(frozen=True)
class OutlierSettings(_Settings):
    """How off-topic images are told by the density of features (paper, "Pooled Deep Outlier Detection").

    Attributes:
        reading: "combined" weighs density and the networks' own logits as validation data suggest; "density"
            is the paper's: the density alone.
        largest_count: The largest count t that the histogram tells.
        bins: Bins Q of the histogram.
    """

    reading: Literal["combined", "density"] = option(
        "combined",
        "With --task outlier: density is the paper's; combined also weighs the networks' own outputs.",
    )
    clusters: tuple[int, ...] = option(
        (1, 2, 3, 5, 8, 12),
        "Numbers K of Gaussians to choose from; may be given several times.",
        Several(_FROM_1),
    )
    mixture_pools: int = option(
        3000, "On-topic training pools M that a mixture is fitted to.", Interval(low=10, whole=True)
    )
    mixture_passes: int | None = option(
        None,
        "In place of --mixture-pools: pools in which every on-topic training image comes so many times. 25 "
        "give the paper's 40,850 and 18,750.",
        replace(_FROM_1, optional=True),
        shown="",
    )
    histogram_pools: int = option(
        600, "Validation pools of each count that say what scores mean.", Interval(low=10, whole=True)
    )
    histogram_images: int | None = option(
        None,
        "Validation images of each class that say what scores of single images mean, drawn with replacement "
        "where there are fewer.",
        replace(_FROM_2, optional=True),
        shown="each once",
    )
    largest_count: int = parameter(5, _FROM_1)
    bins: int = parameter(500, _FROM_1)

    def pools_to_fit(self, on_topic: int, pool_size: int) -> int:
        """On-topic pools M that a mixture is fitted to, of so many training images."""
        if self.mixture_passes is None:
            return self.mixture_pools
        return max(10, self.mixture_passes * (on_topic // pool_size))


@dataclass(frozen=True)
class GlanceSettings(_Settings):
    """How the glance is trained: the small network that looks at shrunken images first.

    Attributes:
        shrink: How many times smaller height and width become.
        stop: Its copy of the backbone ends after this cut point; None copies all of it.
        epochs: Epochs of balanced images, each drawn anew.
        batch_images: Images in a step.
    """

    shrink: int = parameter(2, _FROM_1)
    stop: str | None = option(
        None,
        "The glance is the backbone up to this cut point, such as block13.",
        name="--glance-stop",
        shown="all of it",
    )
    epochs: int = option(8, "Epochs of the glance.", _FROM_1, name="--glance-epochs")
    batch_images: int = parameter(64, _FROM_2)


@dataclass(frozen=True)
class TrainingSettings(_Settings):
    """All settings of one training run; what each does stands with its field.

    Attributes:
        view_settings: How views beside the plain one are drawn.
        optimization: How weights are moved.
        outliers: How off-topic images are told by the density of features; None for plain classification.
        glance: How the small network for the first look is trained; None makes none.
    """

    backbone: str = option("efficientnet-lite0", "Name of the backbone.")
    cut: str | None = option(None, "Cut point between front and back.", shown="the backbone's own")
    weights: str | None = option(
        None,
        "File of pretrained weights; or a training run, or a bundle, to start from what its front and "
        "individual network had learnt.",
        shown="those of the backbone",
    )
    input_size: int | None = option(
        None,
        "Height and width of the network's input in pixels; 112 trains for the paper's half size.",
        Interval(low=32, whole=True, optional=True),
        shown="the backbone's own",
    )
    shrink: int = option(
        1,
        "All networks look at images so many times smaller in height and width; 2 takes about a quarter of "
        "the multiply-adds. `bundles join` puts them before the individual network of another bundle.",
        _FROM_1,
    )
    pool_sizes: tuple[int, ...] = option(
        (8,),
        "Images in a pool; may be given several times.",
        Several(Interval(low=2, high=MAX_POOL_SIZE, whole=True)),
        name="--pool-size",
    )
    counting: Counting = option(
        "shared",
        "With several pool sizes. shared: one network counts in pools of every size; separate: one network "
        "for each size.",
    )
    readings: Literal["counts", "binary", "both"] = option(
        "counts",
        "counts: pooled networks tell how many images are bad (the paper's QPNN); binary: whether any is "
        "(its BPNN), for all schemes and decoders that need no counts; both: networks of either kind, on the "
        "same front if that learns from images; the bundle holds a binary edition.",
    )
    merge: Merge = option(
        "gated",
        "gated: a learnt gate before the maximum; max: the paper's plain maximum; tree: the maximum of "
        "pairs, and again of what is left, see --merge-again.",
    )
    again: tuple[str, ...] | None = option(
        None,
        "With --merge tree: cut point behind the cut where maps are merged again, such as block8; may be "
        "given several times, then pairs are merged at all but the last.",
        name="--merge-again",
        shown="",
    )
    gate_width: int = option(64, "Channels inside the gate; its cost is nearly proportional to it.", _FROM_1)
    tallies: bool = option(
        False,
        "Let the counting networks hear from the gate how many images of a pool look bad, beside what they "
        "see in the merged features.",
    )
    front: Literal["frozen", "tuned", "whole"] = option(
        "frozen",
        "frozen: keep the pretrained front; tuned: train its last blocks, see --tune-from; whole: train all "
        "of it, as the paper does.",
    )
    tune_from: str | None = option(
        None,
        "Train the blocks of the front after this cut point, such as block3; features up to it are cached. A "
        "wrong name is answered with all of them.",
        shown="",
    )
    front_learns_from: Literal["images", "pools"] = option(
        "images",
        "images: a front that learns does so on single images, with the individual network and the cheap "
        "head; pools: on pools, with all networks. A step on a pool of 8 costs about as much as one on 5 "
        "images.",
    )
    front_epochs: int = option(0, "Epochs of a front that learns.", _FROM_0, shown="6 if the front learns")
    individual_epochs: int = option(
        4, "Epochs of the individual network; 0 keeps what it learnt with the front.", _FROM_0
    )
    epochs: int = option(
        20, "Epochs of each counting network; 0 keeps what it learnt with the front.", _FROM_0
    )
    batch_images: int = option(  # batch normalisation needs two in a step
        32, "Images in a step of the individual network.", _FROM_2
    )
    batch_pools: int = option(32, "Pools in a step; fewer need less memory where the front learns.", _FROM_2)
    head_weight: float = option(
        0.5, "Weight of the cheap head's loss beside that of the count.", Interval(low=0)
    )
    count_smoothing: float = option(
        0.0,
        "Share of a count's target that goes to its two neighbours, so that a reading that is wrong by one "
        "costs less than one that is wrong by many.",
        _BELOW_1,
    )
    taught_by: str | None = option(
        None,
        "A bundle whose individual network teaches: what looks at single images learns what it says of the "
        "same views, beside their labels. With --shrink, the bundle to join with.",
        shown="",
    )
    balance: Literal["smaller", "flagged"] = option(
        "smaller",
        "Images of an epoch of the individual network. smaller: all of the smaller class and as many of the "
        "other; flagged: all flagged ones and as many others, drawn with replacement where there are fewer.",
    )
    compile: bool = option(
        False,
        "Let torch compile the steps: a minute for each network, then up to twice as fast. Needs a C++ "
        "compiler; weights differ in the last digits from those without.",
    )
    seed: int = option(0, "Seed of everything random.", Interval(low=0, high=2.0**63, whole=True))
    pools_per_epoch: int = option(
        4000, "Training pools of one epoch, equally many of each size that a network serves.", _FROM_2
    )
    shares: tuple[float, ...] | None = option(
        None,
        "Shares of training pools with 0, 1, ... r bad images, for the largest pool size; give it r + 1 "
        "times.",
        name="--share",
        shown="the paper's 40, 24, 12, 6, 6, 3, 3, 3, 3 %",
    )
    clean_share: float | None = option(
        None,
        "Least share of clean validation pools that are to be read as 0, such as 0.95; the bias of count 0 "
        "is raised if need be. Clean pools that are not read so cost retests; a higher bias misses more.",
        replace(_INSIDE_1, optional=True),
        shown="as it is learnt",
    )
    views: int = option(6, "Cached views of each training image, the plain one included.", _FROM_1)
    fresh_views: int = option(
        0,
        "Views of each training image drawn anew for every epoch of the counting networks, in place of the "
        "cached ones: against learning by heart, for a pass through the front each.",
        _FROM_0,
    )
    view_settings: ViewSettings = field(default_factory=ViewSettings)
    resize_mode: ResizeMode | None = option(
        None,
        "Stretch images to squares, or pad them with zeros.",
        name="--stretch/--pad",
        shown="stretch if all training images are squares already, else pad",
    )
    validation_pools: int = option(1000, "Fixed pools that select the best epoch.", _FROM_1)
    test_pools: int = option(4000, "Pools of the test split to report on.", _FROM_1)
    prevalence: float = option(0.1, "Prevalence by which the best epoch is selected.", _INSIDE_1)
    select_by: Literal["accuracy", "likelihood", "plain-accuracy"] = option(
        "accuracy",
        "What selects the best epoch on validation pools: the paper's weighted accuracy for firearms, the "
        "weighted log-likelihood of the true counts, which suits tasks that are hard to count, or the plain "
        "accuracy, as the paper has it for its other tasks.",
    )
    optimization: Optimization = field(default_factory=Optimization)
    outliers: OutlierSettings | None = None
    glance: GlanceSettings | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shrink > 1 and self.glance is not None:
            raise ValueError("with shrink the individual network itself is a glance: leave the glance out")
        if self.tallies and self.merge != "gated":
            raise ValueError("the plain maximum has no gate to tally: use merge='gated' or no tallies")
        if (self.merge == "tree") != bool(self.again):
            raise ValueError(
                f"merge={self.merge!r}, but again={self.again!r}: a tree merges again at cut points behind "
                "the cut; give them, or another merge"
            )
        if self.merge == "tree" and len(self.pool_sizes) > 1:
            raise ValueError(f"a tree is made for pools of one size, not of {self.pool_sizes}")
        if self.merge == "tree":
            from poolsieve.designs.pool_pairs import check_pairs  # which needs numpy

            check_pairs(self.pool_sizes[0], 1 + len(self.again or ()))
        if self.taught_by is not None and self.outliers is not None:
            raise ValueError("a teacher is for classification: off-topic images are told by their density")
        if self.clean_share is not None and self.outliers is not None:
            raise ValueError("clean_share is for classification: off-topic pools are read by their density")
        if self.readings != "counts" and self.outliers is not None:
            raise ValueError(
                "binary readings are for classification: off-topic pools are read by their density"
            )
        if (self.front == "tuned") != (self.tune_from is not None):
            raise ValueError(
                f"front={self.front!r}, but tune_from={self.tune_from!r}: a front is tuned after a cut "
                "point; give tune_from and leave front out, or give no tune_from and another front"
            )
        if self.front != "frozen" and self.front_learns_from == "images" and not self.epochs:
            raise ValueError(
                "a front that learns from images leaves the counting networks to train: give epochs"
            )
        if self.front == "frozen" and (self.front_epochs or not self.individual_epochs or not self.epochs):
            raise ValueError(
                "with a frozen front the individual and counting networks need at least one epoch each, and "
                "the front none"
            )
        if self.front != "frozen" and not self.front_epochs:
            raise ValueError(f"front={self.front!r} trains the front; give it front_epochs")
        if self.shares is not None:
            self.shares_of(max(self.pool_sizes))

    def shares_of(self, pool_size: int) -> NDArray[np.float64]:
        """Shares of training pools with 0..r bad images.  # (pool_size + 1,)."""
        from poolsieve.training.sampling import check_shares, pool_shares  # which need numpy

        if self.shares is not None and pool_size == max(self.pool_sizes):
            return check_shares(self.shares, pool_size)
        return pool_shares(pool_size)

    def pool_numbers(self, pool_size: int, total: int) -> NDArray[np.int64]:
        """How many of so many pools have 0..r bad images, by these shares.  # (pool_size + 1,)."""
        from poolsieve.training.sampling import split_by_shares

        return split_by_shares(total, self.shares_of(pool_size))

    def to_json(self) -> dict[str, Any]:
        """All settings as plain values."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingSettings:
        """The reverse of `to_json`.

        Raises:
            ValueError: A setting is missing, unknown or not allowed.
        """
        names = {entry.name for entry in fields(cls)}
        if set(values) != names:
            raise ValueError(f"no settings of a training run: {', '.join(sorted(names ^ set(values)))}")
        made = {
            name: PARTS[name](**_tuples(value)) if name in PARTS and value is not None else value
            for name, value in _tuples(values).items()
        }
        return cls(**made)


PARTS: dict[str, type[Any]] = {
    "view_settings": ViewSettings,
    "optimization": Optimization,
    "outliers": OutlierSettings,
    "glance": GlanceSettings,
}
"""Settings that are made of settings."""


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def differing_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Which settings of two runs (as JSON) differ, as lines `name: old -> new`."""
    lines = []
    for name in dict.fromkeys([*new, *old]):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += [f"{name}.{line}" for line in differing_settings(before, after)]
        elif before != after:
            lines.append(f"{name}: {before} -> {after}")
    return lines
