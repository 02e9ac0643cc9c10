"""An item as stages look at it: small where the stage at hand needs no more, whole when another one asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.sources import Item, Loaded, read_item
from poolsieve.images.transforms import plain_view
from poolsieve.view_settings import ResizeMode

KEPT_BYTES = 64_000_000
"""Bytes of files that are kept in case that a stage asks for another view; the others are loaded again."""
_CHANGED = "the file has changed since it was first looked at"


@dataclass(frozen=True)
class ViewRequest:
    """What networks take."""

    size: int  # sides of the square
    resize_mode: ResizeMode  # how an image becomes a square, as in `plain_view`
    frames: int = 1  # the most frames that are taken of an animation, evenly spaced
    shrink: int = 1  # a stage may ask for small views, so many times smaller; 1 if none does


@dataclass(frozen=True)
class Views:
    """What an item holds as a network takes it, or why there is nothing.

    Attributes:
        pixels: Arrays of shape (size, size, 3): one, or several of an animation; or one small view.
        other: Gives the other view, small or whole; None if there is only one.
    """

    sha256: str | None  # hash of the bytes it came from
    pixels: Sequence[NDArray[np.uint8]]
    reason: str | None  # why there are none
    not_image: bool = False  # whether that is because it is a file of another kind
    small: bool = False  # whether they are what a stage is given that asks for a small view
    other: Callable[[], Views] | None = None


def read_views(item: Item, data: Loaded, request: ViewRequest, *, small: bool = False) -> Views:
    """Read one item as networks take it, whole or small; whatever is wrong with it becomes the reason.

    Where a stage may ask for the other view, the item's bytes are kept for that as long as there is room;
    else it is loaded again, or, if it can be loaded only once, decoded for both at once. `data` is what it
    holds or the error, if it was loaded already.
    """
    views, content = _read(item, data, request, small=small)
    if content is None or not _has_other(content, views, request):
        return views
    return replace(views, other=_way_to_other(item, content, request, views))


def _read(item: Item, data: Loaded, request: ViewRequest, *, small: bool) -> tuple[Views, bytes | None]:
    """One view, and the bytes that it was decoded from."""
    contents: list[bytes] = []

    def decode(content: bytes | Image.Image) -> Sequence[NDArray[np.uint8]]:
        if isinstance(content, Image.Image):
            return [plain_view(content, request.size, request.resize_mode)]
        pixels = shared_decoder().decode(
            content,
            item.name,
            at_least=request.size,
            resize_mode=request.resize_mode,
            frames=request.frames,
            shrink=request.shrink if small else 1,
        )
        contents.append(content)
        return pixels

    sha256, pixels, reason, not_image = read_item(item, data, decode)
    return Views(sha256, pixels or (), reason, not_image, small), contents[0] if contents else None


def _has_other(content: bytes, views: Views, request: ViewRequest) -> bool:
    if request.shrink == 1:
        return False
    return len(views.pixels[0]) < request.size if views.small else content.startswith(b"\xff\xd8")


def _way_to_other(item: Item, content: bytes, request: ViewRequest, first: Views) -> Callable[[], Views]:
    kept = _KeptBytes.keep(content)
    if kept is None and item.sequential:
        both = _read(item, content, request, small=not first.small)[0]
        return lambda: both

    def read() -> Views:
        again = _read(item, None if kept is None else kept.content, request, small=not first.small)[0]
        if again.reason is None and again.sha256 != first.sha256:
            return Views(first.sha256, (), _CHANGED)
        return replace(again, sha256=first.sha256)

    return read


class _KeptBytes:
    """The bytes of one file, which give their room back when nobody holds them any more."""

    _left = KEPT_BYTES
    _lock = threading.RLock()  # the collector may end one while this thread keeps another

    def __init__(self, content: bytes) -> None:
        self.content = content

    @classmethod
    def keep(cls, content: bytes) -> _KeptBytes | None:
        """None if there is no room."""
        with cls._lock:
            if len(content) > cls._left:
                return None
            _KeptBytes._left -= len(content)
        return cls(content)

    def __del__(self) -> None:
        with self._lock:
            _KeptBytes._left += len(self.content)
