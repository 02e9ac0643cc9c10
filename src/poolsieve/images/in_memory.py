"""Images that a program holds: bytes of a file, open files, Pillow's images and arrays of pixels.

They have the guards of files. What its owner may change or close as soon as the next image is asked for is
taken at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes, check_pixels, convert_image

HeldImage = bytes | bytearray | memoryview | BinaryIO | Image.Image | NDArray[np.uint8]
"""An image that is in memory or open."""
_BLOCK = 1 << 20
"""Bytes asked of an open file at once; Python makes room for all that is asked for."""


@dataclass(frozen=True)
class BytesItem:
    """The content of a file."""

    name: str
    data: bytes
    max_bytes: int = MAX_BYTES
    sequential: Literal[False] = False

    def load(self) -> bytes:
        """The bytes themselves."""
        check_bytes(self.name, len(self.data), self.max_bytes)
        return self.data


@dataclass(frozen=True)
class OpenFileItem:
    """A file that is open for reading bytes, from where it stands on."""

    name: str
    file: BinaryIO
    max_bytes: int = MAX_BYTES
    sequential: Literal[True] = True  # it may be closed when the next one is asked for

    def load(self) -> bytes:
        """Its bytes up to its end."""
        content = bytearray()
        while True:
            try:
                block = self.file.read(min(_BLOCK, self.max_bytes + 1 - len(content)))
            except Exception as error:  # a stream over the network has errors of its own
                raise UnreadableImage(
                    self.name, f"cannot be read: {str(error) or type(error).__name__}"
                ) from error
            if not isinstance(block, bytes | bytearray | memoryview):
                raise UnreadableImage(self.name, f"read() gave {type(block).__name__} in place of bytes")
            if not block:
                return bytes(content)
            content += block
            if len(content) > self.max_bytes:
                raise UnreadableImage(self.name, f"has more bytes than the limit of {self.max_bytes:,}")


@dataclass(frozen=True)
class PixelsItem:
    """Pixels, or one of Pillow's images; sequential if that may change when the next one is asked for."""

    name: str
    copied: Callable[[], Image.Image]  # in RGB, upright
    sequential: bool = True

    def load(self) -> Image.Image:
        """A copy."""
        return self.copied()


HeldItem = BytesItem | OpenFileItem | PixelsItem


def held_item(
    image: Any, position: int, *, name: str | None = None, max_bytes: int = MAX_BYTES, reused: bool = True
) -> HeldItem | None:
    """The item of an image that is held; None if it is nothing of that kind.

    It has the name given, or its own, or one with its position. `reused` says whether the memory of an array
    may be used for the next one.

    Raises:
        ValueError: An array is no RGB image.
        TypeError: A file is open for text.
    """
    if isinstance(image, np.ndarray):
        name = name or f"array[{position}]"
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
            raise ValueError(
                f"{name} has shape {image.shape} and type {image.dtype}; give RGB as uint8 (H, W, 3)"
            )
        return PixelsItem(name, partial(_copied, image, name), reused)
    if isinstance(image, bytes | bytearray | memoryview):
        return BytesItem(name or f"bytes[{position}]", bytes(image), max_bytes)
    if isinstance(image, Image.Image):
        name = name or _text(image, "filename") or f"image[{position}]"
        return PixelsItem(name, partial(convert_image, image, name))
    if isinstance(image, io.TextIOBase):
        raise TypeError(f"image {position} is a file that is open for text; open it with mode 'rb'")
    if callable(getattr(image, "read", None)):
        return OpenFileItem(name or _text(image, "name") or f"file[{position}]", image, max_bytes)
    return None


def _copied(pixels: NDArray[np.uint8], name: str) -> Image.Image:
    check_pixels(name, (pixels.shape[1], pixels.shape[0]))
    return Image.fromarray(pixels)


def _text(image: Any, attribute: str) -> str | None:
    value = getattr(image, attribute, None)
    return value if isinstance(value, str) else None
