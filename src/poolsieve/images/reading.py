"""Reading one image file into RGB pixels, or saying why it cannot be read."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps

MAX_PIXELS = 100_000_000
"""Images that claim more pixels than this are refused before any pixel is decoded."""

_DECODER_ERRORS = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, MemoryError),
    *(OverflowError, struct.error, zlib.error),
)
"""What Pillow's decoders let through on damaged data."""


class UnreadableImage(ValueError):  # noqa: N818 - named for what it is about
    """A file that is no image, or a damaged, truncated or oversized one.

    Attributes:
        path: The file, as the caller named it.
        reason: What is wrong with it, in one line.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"{os.fspath(path)}: {reason}")
        self.path = Path(path)
        self.reason = reason


def read_image(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Read an image file as RGB, turned upright by its EXIF orientation.

    Raises:
        UnreadableImage: If the content cannot be decoded.
        OSError: If the file itself cannot be opened.
    """
    return decode_image(Path(path).read_bytes(), path, max_pixels=max_pixels)


def decode_image(
    data: bytes, path: str | os.PathLike[str] = "<bytes>", *, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """Decode the bytes of an image file; `path` is only the name given in errors.

    Raises:
        UnreadableImage: If the bytes are no image, or a damaged, truncated or oversized one.
    """
    if not data:
        raise UnreadableImage(path, "the file is empty")
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise UnreadableImage(
                    path, f"{width} x {height} pixels are more than the limit of {max_pixels:,}"
                )
            image.load()
            upright = ImageOps.exif_transpose(image)
            return upright.convert("RGB")
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadableImage(path, "not an image in a format that Pillow knows") from None
    except Image.DecompressionBombError as error:
        raise UnreadableImage(path, str(error)) from None
    except _DECODER_ERRORS as error:
        raise UnreadableImage(path, f"damaged or truncated ({error})") from None
