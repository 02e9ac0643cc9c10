"""Front features of every image, computed once and kept on disk.

With the front frozen, training the backs needs only its outputs. They are kept in half precision (see
`poolsieve.row_cache`), several augmented views of each training image and one plain view of the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.folders import lock_folder
from poolsieve.images.datasets import ImageDataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import (
    DEFAULT_VIEWS,
    Squaring,
    ViewSettings,
    plain_view,
    random_view,
    rotated_view,
)
from poolsieve.progress import Reporter
from poolsieve.row_cache import RowCache

if TYPE_CHECKING:
    import torch

    from poolsieve.training.extractors import Extractor

BATCH_VIEWS = 12
"""Inputs in one pass through the front: few, so that the early wide maps stay in the processor's cache."""


@dataclass(frozen=True)
class ViewSet:
    """Which views of each image are made.

    Attributes:
        size: Side of the network's square input in pixels.
        resize_mode: How images become square.
        random_views: Augmented views beside the plain one; 0 makes the plain one only.
        settings: How augmented views are drawn.
        seed: Seed of the augmentation.
        rotation: Turn the plain view at random by up to this angle (the paper's knife test set); 0 does not.
        plain: The plain view is among them, as the first.
    """

    size: int
    resize_mode: Squaring = "pad"
    random_views: int = 0
    settings: ViewSettings = DEFAULT_VIEWS
    seed: int = 0
    rotation: float = 0.0
    plain: bool = True

    @property
    def views(self) -> int:
        """Views of each image."""
        return self.plain + self.random_views

    def render(self, file: Path, digest: str) -> NDArray[np.uint8]:
        """All views of one image, the plain one first. Shape (views, size, size, 3).

        The random state depends on the seed and the image's content alone, not on its place in the data.
        """
        image = read_image(file, at_least=self.size)  # as it is read to be judged
        rng = np.random.default_rng([self.seed, int(digest[:16], 16)])
        made = []
        if self.plain and self.rotation > 0:
            made.append(rotated_view(image, self.size, rng, self.resize_mode, self.rotation))
        elif self.plain:
            made.append(plain_view(image, self.size, self.resize_mode))
        made += [
            random_view(image, self.size, rng, self.resize_mode, self.settings)
            for _ in range(self.random_views)
        ]
        return np.stack(made)


def cache_features(
    dataset: ImageDataset,
    split: str,
    views: ViewSet,
    extract: Extractor,
    feature_shape: tuple[int, int, int],
    network_key: dict[str, Any],
    cache_dir: Path,
    reporter: Reporter,
    earlier: NDArray[np.float16] | None = None,
) -> NDArray[np.float16]:
    """Open the cached features of one split, making or completing them first if need be.

    Args:
        dataset: The images.
        split: Which split of them.
        views: Which views.
        extract: The front, or what follows the `earlier` features.
        feature_shape: (C, H, W) of the front's output.
        network_key: All that the front's output depends on: name, cut, hash of weights, preprocessing.
        cache_dir: Folder of all caches.
        reporter: Told how far it is.
        earlier: Features of the same views of the split at an earlier cut point, from which to go on rather
            than from the images.  # (images, views, H, W, C)

    Returns:
        Half-precision features, mapped into memory.  # (images, views, H, W, C)

    Raises:
        OSError: If the disk is too small; the message names what is needed and what is free.
    """
    channels, height, width = feature_shape
    positions = dataset.of_split(split)
    row = (views.views, height, width, channels)
    description = {
        "content": dataset.content_hash(split),
        "views": asdict(views),
        "network": network_key,
        "shape": [len(positions), *row],
    }
    folder = RowCache.folder_below(cache_dir, description)
    cache = RowCache(folder, description, len(positions), {"features": np.dtype(("<f2", row))})
    name = f"features of {split} ({len(positions)} images x {views.views} views)"
    arrays = cache.open()
    if arrays is not None:
        reporter.line(f"{name}: from {folder}")
        return arrays["features"]

    def inputs(rows: slice) -> NDArray[Any]:
        if earlier is not None:
            return np.array(earlier[rows]).reshape(-1, *earlier.shape[2:])
        chosen = positions[rows]
        return np.concatenate([views.render(dataset.files[i], dataset.digests[i]) for i in chosen])

    def features_of_few(rows: slice) -> dict[str, NDArray[np.float16]]:
        features = extract(inputs(rows))
        require_finite(features)
        return {"features": features.reshape(-1, *row)}

    def compute(block: slice) -> Iterator[dict[str, NDArray[np.float16]]]:
        step = max(1, BATCH_VIEWS // views.views)
        starts = range(block.start, block.stop, step)
        yield from workers.map(features_of_few, [slice(i, min(i + step, block.stop)) for i in starts])

    waiting = f"{name}: waiting for another run that makes them in {folder}"
    # A thread per core with images of its own needs no barrier after every layer, as torch's threads do.
    with (
        lock_folder(folder, on_wait=lambda: reporter.line(waiting)),
        ThreadPoolExecutor(len(os.sched_getaffinity(0)), initializer=_use_one_torch_thread) as workers,
    ):
        return cache.fill(name, compute, reporter)["features"]


def require_finite(features: NDArray[np.float16]) -> None:
    """Raise ValueError if features did not fit into half precision."""
    if not np.isfinite(features).all():
        raise ValueError("front features exceed the range of half precision; cut the backbone elsewhere")


def _use_one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


def hash_weights(module: torch.nn.Module) -> str:
    """A hash of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
