"""Where training takes its tensors from: cached features, or images rendered on the fly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolsieve.images.datasets import ImageDataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import random_view
from poolsieve.training.features import ViewSet

PLAIN_SHARE = 1 / 3
"""Share of images that are drawn as they are judged, among fresh views."""


class Inputs(Protocol):
    """The images of one split, as tensors for the part of the network that is trained."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of the images. Shape (images,)."""

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random view of each image. Shape (n, C, H, W), channels last in memory."""

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The plain view of each image. Shape (n, C, H, W), channels last in memory."""


class PoolInputs(Protocol):
    """Training images that pools are drawn from, maybe other views of them in every epoch."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of the images. Shape (images,)."""

    def begin(self, epoch: int) -> None:
        """Get ready for an epoch, counted from 0."""

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random view of each image. Shape (n, C, H, W), channels last in memory."""


@dataclass(frozen=True)
class CachedInputs:
    """Cached features.

    Attributes:
        array: Half-precision features. Shape (images, views, H, W, C).
        labels: Labels of the images. Shape (images,).
    """

    array: NDArray[np.float16]
    labels: NDArray[np.int64]

    def begin(self, epoch: int) -> None:
        """Nothing changes from epoch to epoch."""

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A random one of the cached views of each image."""
        return self._gather(positions, rng.integers(self.array.shape[1], size=len(positions)))

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The first cached view of each image, which is the plain one."""
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
        make: Features for an epoch. Shape (images, views, H, W, C).
    """

    def __init__(self, whole: CachedInputs, make: Callable[[int], NDArray[np.float16]]) -> None:
        self.labels = whole.labels
        self._whole, self._make = whole, make
        self._now: CachedInputs | None = None

    def begin(self, epoch: int) -> None:
        """Draw the views of an epoch."""
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
        mean: Subtracted from each channel of the pixels.
        scale: Divides each channel after that.
    """

    dataset: ImageDataset
    split: str
    views: ViewSet
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    _workers: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor, repr=False, compare=False)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of the split's images."""
        return self.dataset.labels[self.dataset.of_split(self.split)]

    def draw(self, positions: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        """A fresh random view of each image."""
        seeds = rng.integers(2**63, size=len(positions))
        rows = self.dataset.of_split(self.split)[positions]

        def render(row: int, seed: int) -> NDArray[np.uint8]:
            image = read_image(self.dataset.files[row], at_least=self.views.size)
            own = np.random.default_rng(int(seed))
            return random_view(image, self.views.size, own, self.views.resize_mode, self.views.settings)

        return self._normalised(np.stack(list(self._workers.map(render, rows, seeds))))

    def plain(self, positions: NDArray[np.int64]) -> Tensor:
        """The plain view of each image."""
        rows = self.dataset.of_split(self.split)[positions]
        pixels = self._workers.map(
            lambda row: self.views.render(self.dataset.files[row], self.dataset.digests[row])[0], rows
        )
        return self._normalised(np.stack(list(pixels)))

    def _normalised(self, pixels: NDArray[np.uint8]) -> Tensor:
        mean, scale = (torch.tensor(value).reshape(1, -1, 1, 1) for value in (self.mean, self.scale))
        return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().sub_(mean).div_(scale)
