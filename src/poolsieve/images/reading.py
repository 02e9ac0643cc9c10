"""Reading one image file into RGB pixels, or saying why it cannot be read.

Files come from strangers, so nothing about them is believed: the format is told by content and must be on a
short list, bytes are counted before they are read and pixels before they are decoded.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, ImageOps

from poolsieve.shown_text import shown

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
"""Formats that are decoded; Pillow knows many more, whose decoders strangers shall not reach."""
MAX_PIXELS = 100_000_000
"""Images that claim more pixels than this are refused before any pixel is decoded."""
MAX_BYTES = 100_000_000
"""Files larger than this are refused before they are read."""
BACKGROUND = (255, 255, 255)
"""What transparent pixels are laid on: white, as most pages are."""
LARGE_PIXELS = 8_000_000
"""Images above this are decoded one at a time, so that several threads do not fill the memory together, and
are reduced at once to what is needed of them."""
_ROWS = 256
_OPENED_FORMATS = (*FORMATS, "MPO")
"""What Pillow says of images that it opened as one of `FORMATS`: MPO are JPEGs that hold another image."""
_opened_images = threading.Lock()
"""Two threads may have opened one image, which must be decoded once."""

_DECODER_ERRORS = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, MemoryError),
    *(OverflowError, struct.error, zlib.error, AttributeError),
)
"""What Pillow's decoders let through on damaged data."""

# Our own limit takes the place of Pillow's warning, which would go to the terminal once for a whole run.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def _start_large_reader() -> None:
    # One thread and not a lock for many: the C library keeps freed memory for each thread.
    global _large_reader
    _large_reader = ThreadPoolExecutor(1, thread_name_prefix="large-images")


_large_reader: ThreadPoolExecutor
_start_large_reader()
if hasattr(os, "register_at_fork"):  # a forked process has no threads but its own
    os.register_at_fork(after_in_child=_start_large_reader)


class UnreadableImage(ValueError):  # noqa: N818 - named for what it is about
    """A file that is no image, or a damaged, truncated or oversized one.

    Attributes:
        path: The file, as the caller named it.
        reason: What is wrong with it, in one line.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        reason = shown(" ".join(reason.split()))
        super().__init__(f"{shown(os.fspath(path))}: {reason}")
        self.path = Path(path)
        self.reason = reason


def read_image(
    path: str | os.PathLike[str],
    *,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    at_least: int | None = None,
) -> Image.Image:
    """Read an image file as RGB, turned upright by its EXIF orientation; see `decode_image`.

    Raises:
        UnreadableImage: If the content cannot be decoded or is too large.
        OSError: If the file itself cannot be opened.
    """
    return decode_image(read_limited(path, max_bytes), path, max_pixels=max_pixels, at_least=at_least)


def read_limited(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file that is no larger than `max_bytes`.

    Raises:
        UnreadableImage: If it is larger, or no regular file (a pipe, a device, a folder).
        OSError: If it cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:  # noqa: PTH123 - the file is open already
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(path, "not a regular file")
        check_bytes(path, status.st_size, max_bytes)
        # Python makes room for all that is asked for, so ask for what the file has, not for what it may have.
        return stream.read(status.st_size)


def check_bytes(path: str | os.PathLike[str], size: int, max_bytes: int) -> None:
    """Raise UnreadableImage if a file has more bytes than are read."""
    if size > max_bytes:
        raise UnreadableImage(path, f"{size:,} bytes are more than the limit of {max_bytes:,}")


def check_pixels(path: str | os.PathLike[str], size: tuple[int, int], max_pixels: int = MAX_PIXELS) -> None:
    """Raise UnreadableImage if an image, of a width and height, has more pixels than are decoded."""
    width, height = size
    if width * height > max_pixels:
        raise UnreadableImage(path, f"{width} x {height} pixels are more than the limit of {max_pixels:,}")


def decode_image(
    data: bytes,
    path: str | os.PathLike[str] = "<bytes>",
    *,
    max_pixels: int = MAX_PIXELS,
    at_least: int | None = None,
) -> Image.Image:
    """Decode the bytes of an image file as RGB, upright.

    Of an animation the first frame is taken. Transparent pixels are laid on `BACKGROUND`, so that colours
    hidden under them do not show; 16-bit grey is scaled to 8 bits.

    Args:
        data: Content of a JPEG, PNG, WebP, GIF or BMP file.
        path: Only the name given in errors.
        max_pixels: Refuse images that claim more pixels.
        at_least: The size that the image will be brought to. A JPEG whose sides are several times larger is
            decoded at a half, a quarter or an eighth of its size, with no side below `at_least`;
            that saves most of the time of decoding. Other very large images are reduced as far.

    Raises:
        UnreadableImage: If the bytes are no image, or a damaged, truncated or oversized one.
    """
    if not data:
        raise UnreadableImage(path, "the file is empty")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            check_pixels(path, image.size, max_pixels)
            if at_least is not None:
                image.draft("RGB", (at_least, at_least))  # neither side will be smaller
            if image.width * image.height <= LARGE_PIXELS:
                return _decoded(image)
            return _large_reader.submit(_decoded_and_reduced, image, at_least).result()
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadableImage(path, "not a JPEG, PNG, WebP, GIF or BMP image") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(
            path, f"its header claims more pixels than the limit of {max_pixels:,}"
        ) from None
    except _DECODER_ERRORS as error:
        raise UnreadableImage(path, f"damaged or truncated ({error})") from None


def _decoded(image: Image.Image) -> Image.Image:
    image.load()
    _turn_upright(image)
    return _as_rgb(image)


def _decoded_and_reduced(image: Image.Image, at_least: int | None) -> Image.Image:
    """A large image, brought near the size asked for by a whole factor."""
    decoded = _decoded(image)
    factor = 1 if at_least is None else min(decoded.size) // at_least
    return decoded.reduce(factor) if factor > 1 else decoded


def _turn_upright(image: Image.Image) -> None:
    # Damaged EXIF on a sound image: it is shown as it lies, as viewers do.
    with suppress(*_DECODER_ERRORS):
        ImageOps.exif_transpose(image, in_place=True)


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_wide_grey(image)
    if image.has_transparency_data:
        layered = image if image.mode == "RGBA" else image.convert("RGBA")
        canvas = Image.new("RGB", layered.size, BACKGROUND)
        canvas.paste(layered, mask=layered.getchannel("A"))
        return canvas
    return image.convert("RGB")


def _from_wide_grey(image: Image.Image) -> Image.Image:
    """16-bit grey, which Pillow's own conversion would clip at 255."""
    transparent = image.info.get("transparency")
    grey = np.empty((image.height, image.width), dtype=np.uint8)
    for top in range(0, image.height, _ROWS):  # in strips, as wide numbers take room
        values = np.asarray(image.crop((0, top, image.width, min(top + _ROWS, image.height))))
        strip = np.clip(np.round(values / 257), 0, 255).astype(np.uint8)
        if isinstance(transparent, int):
            strip = np.where(values == transparent, np.uint8(BACKGROUND[0]), strip)
        grey[top : top + _ROWS] = strip
    return Image.fromarray(grey).convert("RGB")


def convert_image(
    image: Image.Image, path: str | os.PathLike[str] = "<image>", *, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """A copy in RGB and upright of one of Pillow's images, as `decode_image` would have given it.

    Args:
        image: Decoded, or opened only; then it is decoded here, one at a time.
        path: Only the name given in errors.
        max_pixels: Refuse images that have more pixels.

    Raises:
        UnreadableImage: If it was opened from a format that is not decoded here, or is damaged, truncated or
            oversized.
    """
    if isinstance(image, ImageFile.ImageFile) and image.format not in _OPENED_FORMATS:
        raise UnreadableImage(
            path, f"opened from {image.format}, not from a JPEG, PNG, WebP, GIF or BMP image; give a copy()"
        )
    check_pixels(path, image.size, max_pixels)
    if 0 in image.size:
        raise UnreadableImage(path, f"{image.width} x {image.height} pixels are no image")
    try:
        with _opened_images:
            own = image.copy()
        return _decoded(own)
    except _DECODER_ERRORS as error:
        raise UnreadableImage(path, f"damaged or truncated ({error})") from None
