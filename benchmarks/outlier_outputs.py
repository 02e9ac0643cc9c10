"""What the networks of an outlier run say of images and of pools, upright and turned, at several layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from poolsieve.images.datasets import load_dataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import make_square
from poolsieve.networks.trained import TrainedModel
from poolsieve.progress import Reporter
from poolsieve.training.inputs import CachedInputs, ViewSet
from poolsieve.training.network_outputs import read_images, read_pools
from poolsieve.training.outlier_fitting import HELD_OUT_SHARE
from poolsieve.training.sampling import PoolBatch, draw_pools, epoch_generator
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.view_settings import ViewSettings

MEASURED = {"val": "validation", "test": "test"}
"""Splits, and what they are called."""
ANGLES = (15.0, -15.0, 30.0, -30.0)
LAST = "last but one"

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class TurnedViews(ViewSet):
    """One view of each image, turned by a given angle; uncovered corners are zero."""

    angle: float = 0.0

    def render(self, file: Path, digest: str) -> NDArray[np.uint8]:
        """The view.  # (1, size, size, 3)."""
        square = make_square(read_image(file), self.size, self.resize_mode)
        return np.asarray(square.rotate(self.angle, Image.Resampling.BILINEAR))[None]


@dataclass(frozen=True)
class Said:
    """What a network says of pools; single images are pools of one.

    Attributes:
        logits: Its outputs.  # (N, outputs)
        layers: Vectors (N, D) by the name of their layer.
        pools: What it was asked about.
        groups: The same number for pools that share an off-topic image.  # (N,)
    """

    logits: NDArray[np.float32]
    layers: dict[str, Floats]
    pools: PoolBatch
    groups: NDArray[np.int64]

    @property
    def vectors(self) -> Floats:
        """Those that are shipped."""
        return self.layers[LAST]

    def only(self, chosen: NDArray[np.bool_]) -> Said:
        """Some of the pools."""
        layers = {name: vectors[chosen] for name, vectors in self.layers.items()}
        return Said(self.logits[chosen], layers, pick(self.pools, chosen), self.groups[chosen])


@dataclass(frozen=True)
class NetworkOutputs:
    """All that was read of images or of pools.

    Attributes:
        learnt: On-topic training pools.
        other_views: The same pools in other views.
        held_out: On-topic validation pools.
        measured: Pools of every count, by split.
        few: Those of them with no or one off-topic image, by split.
        turned: The few with all images turned by each of `ANGLES`, by split.
        at_random: The few with every image turned by its own angle, by split.
    """

    learnt: Said
    other_views: Said
    held_out: Said
    measured: dict[str, Said]
    few: dict[str, Said]
    turned: dict[str, list[Said]]
    at_random: dict[str, Said]


@dataclass(frozen=True)
class Views:
    """Front features by split.

    Attributes:
        plain: Upright images.
        other: Training images in another, random view.
        turned: Images turned by each of `ANGLES`.
        at_random: Images turned at random, as the paper does.
    """

    plain: dict[str, CachedInputs]
    other: CachedInputs
    turned: dict[str, list[CachedInputs]]
    at_random: dict[str, CachedInputs]


def load_views(
    model: TrainedModel,
    data: Path,
    settings: TrainingSettings,
    cache_dir: Path,
    reporter: Reporter,
    most: int | None,
    seed: int,
) -> Views:
    """Front features of all views, from the cache or made now.

    Args:
        model: Its front is used.
        data: The labelled images.
        settings: Those of the run.
        cache_dir: Folder of the feature caches.
        reporter: Told how far it is.
        most: Take at most so many images of each class of a split; None takes all.
        seed: Draws them.
    """
    dataset, backbone = load_dataset(data), model.backbone
    rng = np.random.default_rng(seed)
    rows = {}
    for split in ("train", *MEASURED):
        labels = dataset.labels[dataset.of_split(split)]
        rows[split] = np.sort(
            np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:most] for k in (0, 1)])
        )

    splits = SplitFeatures(backbone, dataset, settings, cache_dir, reporter)

    def inputs(split: str, views: ViewSet | None = None) -> CachedInputs:
        found = splits.cached(split, views=views)
        array = found.array if most is None else found.array[rows[split]]
        return CachedInputs(array, found.labels[rows[split]])

    train = inputs("train")
    upright = splits.views("val")
    turning = ViewSettings(flip=False, rotation=30.0, min_crop=1.0, colour=0.0, letterbox=0.0)
    at_random = replace(upright, random_views=1, plain=False, settings=turning)
    turned = [
        TurnedViews(backbone.input_size, settings.resize_mode or "pad", angle=angle) for angle in ANGLES
    ]
    return Views(
        {"train": train} | {split: inputs(split, upright) for split in MEASURED},
        CachedInputs(train.array[:, 1:], train.labels),
        {split: [inputs(split, view) for view in turned] for split in MEASURED},
        {split: inputs(split, at_random) for split in MEASURED},
    )


def read_outputs(
    model: TrainedModel, views: Views, places: int, pools: int, measured_pools: int, seed: int
) -> NetworkOutputs:
    """Read images, if there is one place in a pool, or pools.

    Args:
        model: The networks.
        views: Front features.
        places: Images in a pool.
        pools: On-topic training pools to fit to.
        measured_pools: Pools of each count to measure on, in each split.
        seed: Draws the pools.
    """

    def draw(split: str, numbers: list[int]) -> PoolBatch:
        labels = views.plain[split].labels
        if places == 1:  # each once
            chosen = np.flatnonzero(labels < len(numbers))
            return PoolBatch(chosen[:, None], labels[chosen])
        wanted = np.zeros(places + 1, dtype=np.int64)
        wanted[: len(numbers)] = numbers
        return draw_pools(labels, wanted, epoch_generator(seed, f"tries {split} {len(numbers)}", 0))

    learnt = draw("train", [pools])
    measured = {split: draw(split, [measured_pools] * (places + 1)) for split in MEASURED}
    few = {split: pick(drawn, drawn.counts <= 1) for split, drawn in measured.items()}
    said = {split: read(model, views.plain[split], drawn) for split, drawn in measured.items()}
    return NetworkOutputs(
        read(model, views.plain["train"], learnt),
        read(model, views.other, learnt),
        read(model, views.plain["val"], draw("val", [round(HELD_OUT_SHARE * pools)])),
        said,
        {split: all_.only(all_.pools.counts <= 1) for split, all_ in said.items()},
        {split: [read(model, turned, few[split]) for turned in views.turned[split]] for split in MEASURED},
        {split: read(model, views.at_random[split], few[split]) for split in MEASURED},
    )


def read(model: TrainedModel, inputs: CachedInputs, pools: PoolBatch) -> Said:
    """Ask the individual network about pools of one image, the counting network about others."""
    places = pools.members.shape[1]
    network = model.individual if places == 1 else model.counting[places]
    points = model.backbone.cut_points
    stages = points[points.index(model.backbone.cut) + 1 :]
    with kept_layers(network.back, stages) as layers:
        output = (
            read_images(model.individual, model.gate, inputs, pools.members[:, 0])
            if places == 1
            else read_pools(model.counting[places], inputs, pools)
        )
    off_topic = inputs.labels[pools.members]
    own = pools.members[np.arange(len(pools)), off_topic.argmax(axis=1)]
    groups = np.where(pools.counts > 0, own, -1 - np.arange(len(pools)))
    found = {name: np.concatenate(parts) for name, parts in layers.items()}
    return Said(output.logits, {LAST: output.vectors, **found}, pools, groups)


@contextmanager
def kept_layers(back: Any, stages: tuple[str, ...]) -> Iterator[dict[str, list[Floats]]]:
    """Keeps, batch by batch, means over locations of what goes into a back and of two of its stages."""
    kept: dict[str, list[Floats]] = {}

    def keep(name: str, values: Any) -> None:
        kept.setdefault(name, []).append(values.mean(dim=(2, 3)).numpy())

    hooks = [back[0].register_forward_pre_hook(lambda module, given: keep("front, averaged", given[0]))]
    for place in sorted({len(stages) // 2, max(len(stages) - 2, 0)}):

        def after(module: nn.Module, given: Any, values: Any, name: str = stages[place]) -> None:
            keep(f"`{name}`, averaged", values)

        hooks.append(back[place].register_forward_hook(after))
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


def pick(pools: PoolBatch, chosen: NDArray[np.bool_]) -> PoolBatch:
    """Some of the pools."""
    return PoolBatch(pools.members[chosen], pools.counts[chosen])
