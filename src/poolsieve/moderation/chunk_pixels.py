"""Images of a chunk as they were read, and as stages ask for them: small at first, and whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.images.small_views import enlarged
from poolsieve.images.views import Views


@dataclass(frozen=True)
class PreparedImage:
    """One image as a network takes it, or why there is none.

    Attributes:
        name: The image as the source names it.
        sha256: Hash of what it came from; None if that could not be read.
        pixels: As the network takes them, of an animation the frame that is shown first, or a small view of
            it; None if it could not be read.  # (S, S, 3)
        reason: Why not.
        not_image: Whether that is because it is a file of another kind.
        later: Further frames of an animation.
        small: Whether the pixels are what a stage is given that asks for a small view.
        other: Reads the other view, small or whole; None if the pixels serve all stages.
    """

    name: str
    sha256: str | None
    pixels: NDArray[np.uint8] | None
    reason: str | None
    not_image: bool = False
    later: Sequence[NDArray[np.uint8]] = ()
    small: bool = False
    other: Callable[[], Views] | None = None

    @classmethod
    def of(cls, name: str, views: Views) -> PreparedImage:
        """An image of that name, by what was read of it."""
        first = views.pixels[0] if views.pixels else None
        return cls(
            name,
            views.sha256,
            first,
            views.reason,
            views.not_image,
            views.pixels[1:],
            views.small,
            views.other,
        )

    def seen(self, *, small: bool) -> PreparedImage:
        """As a stage is given it that asks for a small view, or for the whole one."""
        if self.other is None or small == self.small:
            return self
        return PreparedImage.of(self.name, self.other())


class LostImages(Exception):  # noqa: N818 - named for what it is about
    """Images that could be read at first, and not when a stage asked for more of them.

    Attributes:
        images: What became of them, by their numbers among the readable images.
    """

    def __init__(self, images: dict[int, PreparedImage]) -> None:
        super().__init__(f"{len(images)} images could not be read again")
        self.images = images


class ChunkPixels:
    """The readable images of a chunk, read again on threads where a stage needs another view of them.

    Args:
        images: The images.
        size: Sides of what networks take.
        readers: Read again.
    """

    def __init__(self, images: Sequence[PreparedImage], size: int, readers: ThreadPoolExecutor) -> None:
        self._images, self._size, self._readers = images, size, readers

    def __len__(self) -> int:
        return len(self._images)

    def view(self, images: NDArray[np.intp], *, small: bool) -> NDArray[np.uint8]:
        """As in `poolsieve.schemes.runner.Pixels`.

        Raises:
            LostImages: Some of them could not be read again.
        """
        seen = list(self._readers.map(lambda k: self._images[k].seen(small=small), images))
        lost = {int(k): one for k, one in zip(images, seen, strict=True) if one.pixels is None}
        if lost:
            raise LostImages(lost)
        pixels = np.empty((len(images), self._size, self._size, 3), dtype=np.uint8)
        for row, one in zip(pixels, seen, strict=True):
            assert one.pixels is not None
            row[:] = enlarged(one.pixels, self._size)
        return pixels
