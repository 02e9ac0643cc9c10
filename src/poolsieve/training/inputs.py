"""Where training takes its tensors from: cached features, or images rendered on the fly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolsieve.images.datasets import ImageDataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import plain_view, random_view
from poolsieve.networks import Preprocessing
from poolsieve.training.teaching import Teacher
from poolsieve.view_settings import DEFAULT_VIEWS, ResizeMode, ViewSettings

PLAIN_SHARE = 1 / 3
"""Share of images that are drawn as they are judged, among fresh views."""


@dataclass(frozen=True)
class ViewSet:
    """Which views of each image are made.

    Attributes:
        size: Side of the network's square input in pixels.
        resize_mode: How images become square.
        random_views: Augmented views beside the plain one; 0 makes the plain one only.
        settings: How augmented views are drawn.
        seed: Seed of the augmentation.
        plain: The plain view is among them, as the first.
    """

    size: int
    resize_mode: ResizeMode = "pad"
    random_views: int = 0
    settings: ViewSettings = DEFAULT_VIEWS
    seed: int = 0
    plain: bool = True

    @property
    def views(self) -> int:
        """Views of each image."""
        return self.plain + self.random_views

    def render(self, file: Path, digest: str) -> NDArray[np.uint8]:
        """All views of one image, the plain one first.  # (views, size, size, 3).

        The random state depends on the seed and the image's content alone, not on its place in the data.
        """
        image = read_image(file, at_least=self.size)  # as it is read to be judged
        rng = np.random.default_rng([self.seed, int(digest[:16], 16)])
        made = []
        if self.plain:
            made.append(plain_view(image, self.size, self.resize_mode))
        for _ in range(self.random_views):
            made.append(random_view(image, self.size, rng, self.resize_mode, self.settings))
        return np.stack(made)

    def render_random(self, file: Path, seed: int) -> NDArray[np.uint8]:
        """One random view of an image, drawn by a seed of its own.  # (size, size, 3)."""
        image = read_image(file, at_least=self.size)
        return random_view(image, self.size, np.random.default_rng(seed), self.resize_mode, self.settings)


class Inputs(Protocol):
    """The images of one split, as tensors for the part of the network that is trained."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of the images.  # (images,)."""

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random view of each image.  # (n, C, H, W), channels last in memory."""

    def draw_taught(
        self, positions: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """A random view of each image, and the teacher's logits of them if there is one.  # (n,)."""

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The plain view of each image.  # (n, C, H, W), channels last in memory."""


@dataclass(frozen=True)
class CachedInputs:
    """Cached features.

    Attributes:
        array: Half-precision features, the plain view first.  # (images, views, H, W, C)
        labels: Labels of the images.  # (images,)
        taught: How bad a teacher finds each view; None without one.  # (images, views)
    """

    array: NDArray[np.float16]
    labels: NDArray[np.int64]
    taught: NDArray[np.float32] | None = None

    def begin(self, epoch: int) -> None:
        """Nothing changes from epoch to epoch."""

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random one of the cached views of each image."""
        return self.draw_taught(positions, rng)[0]

    def draw_taught(
        self, positions: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """A random one of the cached views of each image, and what the teacher says of it."""
        views = rng.integers(self.array.shape[1], size=len(positions))
        taught = None if self.taught is None else torch.from_numpy(self.taught[positions, views])
        return self._gather(positions, views), taught

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The first cached view of each image."""
        return self._gather(positions, np.zeros(len(positions), dtype=np.int64))

    def _gather(self, positions: NDArray[np.int64], views: NDArray[np.int64]) -> Tensor:
        # Torch converts half precision many times faster than numpy does.
        return torch.from_numpy(self.array[positions, views]).float().permute(0, 3, 1, 2)


class FreshInputs:
    """Features of views that are drawn anew for every epoch, so that none can be learnt by heart.

    Some images are drawn as they are judged. From turned and cropped views alone a network learns pools whose
    corners are empty, and reads those of whole images worse by the epoch.

    Args:
        whole: Cached features whose first view is the plain one.
        make: Features for an epoch.  # (images, views, H, W, C)
    """

    def __init__(self, whole: CachedInputs, make: Callable[[int], NDArray[np.float16]]) -> None:
        self.labels = whole.labels
        self._whole, self._make = whole, make
        self._now: CachedInputs | None = None

    def begin(self, epoch: int) -> None:
        """Draw the views of an epoch, counted from 0."""
        self._now = None  # its file can be deleted now
        self._now = CachedInputs(self._make(epoch), self.labels)

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random one of the epoch's views of each image, or its plain one."""
        if self._now is None:
            raise RuntimeError("begin an epoch before drawing from it")
        drawn = self._now.draw(positions, rng)
        plain = np.flatnonzero(rng.random(len(positions)) < PLAIN_SHARE)
        drawn[torch.from_numpy(plain)] = self._whole.plain(positions[plain])
        return drawn


@dataclass(frozen=True)
class ImageInputs:
    """Images read and augmented anew for every batch, for a front that learns from its first layer on.

    Attributes:
        dataset: The images.
        split: Which split of them.
        views: How they are rendered.
        preprocessing: How pixels become network input.
        teacher: Judges the views that are drawn, if there is one.
    """

    dataset: ImageDataset
    split: str
    views: ViewSet
    preprocessing: Preprocessing
    teacher: Teacher | None = None
    _workers: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor, repr=False, compare=False)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of the split's images."""
        return self.dataset.labels[self.dataset.of_split(self.split)]

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A fresh random view of each image."""
        return self.normalised(self.draw_pixels(positions, rng))

    def draw_taught(
        self, positions: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """A fresh random view of each image, and what the teacher says of it."""
        pixels = self.draw_pixels(positions, rng)
        taught = None if self.teacher is None else torch.from_numpy(self.teacher.logits(pixels))
        return self.normalised(pixels), taught

    def draw_pixels(self, positions: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
        """A fresh random view of each image, as pixels.  # (n, S, S, 3)."""
        seeds = rng.integers(2**63, size=len(positions)).tolist()
        files = (self.dataset.files[row] for row in self._rows(positions))
        return np.stack(list(self._workers.map(self.views.render_random, files, seeds)))

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The plain view of each image."""
        images = [(self.dataset.files[row], self.dataset.digests[row]) for row in self._rows(positions)]
        return self.normalised(
            np.stack(list(self._workers.map(lambda image: self.views.render(*image)[0], images)))
        )

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.intp]:
        return self.dataset.of_split(self.split)[positions]

    def normalised(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pixels as the network takes them.  # (n, S, S, 3) -> (n, 3, S, S)."""
        return self.preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
