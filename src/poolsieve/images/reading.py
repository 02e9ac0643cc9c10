"""Reading one image file into RGB pixels, or saying why it cannot be read.

Files come from strangers, so nothing about them is believed: the format is told by content and must be on a
short list, bytes are counted before they are read and pixels before they are decoded. What is here decodes in
this process; `guarded_decoding` does the same in processes with limits of time and memory.
"""

from __future__ import annotations

import io
import os
import stat
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

# Pillow would take in all its plugins to find that of WebP.
from PIL import ExifTags, Image, ImageFile, WebPImagePlugin  # noqa: F401

from poolsieve.images.heif import heif_format, open_heif
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
"""Images that are larger than this when they are decoded are reduced at once to what is needed of them."""
LARGE_MEMORY = 104_000_000
"""Images whose decoding takes more bytes than this are decoded one at a time in this process, so that several
threads do not fill the memory together."""
MAX_FRAMES = 100
"""The most frames that are taken of an animation."""
MAX_SCANS = 100
"""JPEGs that come in more scans are refused; ordinary progressive ones have about ten."""
ANIMATED = ("GIF", "WEBP", "PNG", "AVIF")
"""Formats whose frames are one after the other the same picture; HEIC holds pictures beside each other."""
_MOST_SEGMENTS = 100
"""Of a JPEG, before its first scan; beyond them it is looked at closely."""
_STRIP_PIXELS = 1_000_000
_STILL_BYTES = {"PNG": 4, "BMP": 5, "GIF": 5, "WEBP": 18, "HEIF": 12, "AVIF": 18}
_MOVING_BYTES = {"PNG": 13, "GIF": 14, "WEBP": 18, "AVIF": 18}
"""Bytes for each pixel that are held while an image or one of an animation's frames is decoded: measured at
20 megapixels, with some room."""
_COPIES = 13
"""Bytes for each pixel of an image with its copies in RGBA and RGB and its transparency."""

_JPEGS = ("JPEG", "MPO")
"""What Pillow calls JPEGs; MPO are those with another image behind the first, as telephones make them."""
_OPENED_FORMATS = (*FORMATS, "MPO", "HEIF", "AVIF")
"""What Pillow says of images that it opened as a format that is read."""
_opened_images = threading.Lock()
"""Two threads may have opened one image, which must be decoded once."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What brings an image upright, by its EXIF orientation."""

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

    Of an animation the frame is taken that a browser shows first. Transparent pixels are laid on
    `BACKGROUND`, so that colours hidden under them do not show; 16-bit grey is scaled to 8 bits.

    Args:
        data: Content of a JPEG, PNG, WebP, GIF or BMP file, or with the extra `heif` of a HEIC or AVIF file.
        path: Only the name given in errors.
        max_pixels: Refuse images that claim more pixels.
        at_least: The size that the image will be brought to. A JPEG whose sides are several times larger is
            decoded at a half, a quarter or an eighth of its size, with no side below `at_least`;
            that saves most of the time of decoding. Other very large images are reduced as far.

    Raises:
        UnreadableImage: If the bytes are no image, or a damaged, truncated or oversized one.
    """
    return decode_frames(data, path, frames=1, max_pixels=max_pixels, at_least=at_least)[0]


def decode_frames(
    data: bytes,
    path: str | os.PathLike[str] = "<bytes>",
    *,
    frames: int,
    max_pixels: int = MAX_PIXELS,
    at_least: int | None = None,
) -> list[Image.Image]:
    """Decode several frames of an animation, evenly spaced from the first to the last that is shown.

    At most so many `frames`, up to `MAX_FRAMES`; one is the frame that is shown first, and the only one of an
    image that does not move. Else as `decode_image`.
    """
    if not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"frames is {frames}; give a number from 1 to {MAX_FRAMES}")
    with decoder_errors(path, max_pixels), open_image(data, path, max_pixels) as image:
        if memory_needed(image, at_least) <= LARGE_MEMORY:
            return list(decoded(image, at_least, frames))
        return _large_reader.submit(lambda: list(decoded(image, at_least, frames))).result()


@contextmanager
def decoder_errors(path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS) -> Iterator[None]:
    """Whatever a decoder raises becomes UnreadableImage."""
    try:
        yield
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadableImage(path, "not a JPEG, PNG, WebP, GIF or BMP image") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(
            path, f"its header claims more pixels than the limit of {max_pixels:,}"
        ) from None
    except MemoryError:
        raise UnreadableImage(path, "decoding it takes more memory than there is for an image") from None
    except Exception as error:
        raise UnreadableImage(path, f"damaged or truncated ({str(error) or type(error).__name__})") from None


def open_image(data: bytes, path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Read the header of an image of a format that is read; to be used inside `decoder_errors`."""
    if not data:
        raise UnreadableImage(path, "the file is empty")
    if data.startswith(b"\xff\xd8") and not _in_one_scan(data):
        # In compressed data 255 is never followed by 218; what else is in the file may have it by chance.
        scans = data.count(b"\xff\xda")
        if scans > MAX_SCANS + len(data) // 20_000:
            raise UnreadableImage(path, f"a JPEG in {scans:,} scans, more than the limit of {MAX_SCANS}")
    kind = heif_format(data)
    if kind is None:
        image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
    else:
        try:
            image = open_heif(data, kind)
        except ImportError as error:
            raise UnreadableImage(
                path, f"HEIC and AVIF images need an extra: pip install 'poolsieve[heif]' ({error})"
            ) from None
        except Image.UnidentifiedImageError:
            raise UnreadableImage(path, "damaged or truncated (no sound HEIC or AVIF header)") from None
    check_pixels(path, image.size, max_pixels)
    return image


def _in_one_scan(data: bytes) -> bool:
    """Whether a JPEG's first scan has all components of a sequential image: the decoder then takes no other.

    Looking through all of a file for scans would take as long as a twelfth of decoding it.
    """
    place, components = 2, 0
    for _ in range(_MOST_SEGMENTS):
        if data[place : place + 1] != b"\xff" or len(data) < place + 10:
            return False
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        if marker == 0xDA:
            return data[place + 4] == components > 0
        if marker in (0xC0, 0xC1):
            components = data[place + 9]
        elif (0xC2 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)) or length < 2:
            return False
        place += 2 + length
    return False


def memory_needed(image: Image.Image, at_least: int | None, scale: int | None = None) -> int:
    """About the most bytes that `decoded` takes for an open image, whatever it holds inside."""
    pixels = image.width * image.height
    if image.format in _JPEGS:
        # A JPEG in several scans keeps all its coefficients, at full size however small it is decoded.
        layers = [(across, down) for _, across, down, _ in getattr(image, "layer", [])] or [(1, 1)]
        most = max(across for across, _ in layers) * max(down for _, down in layers)
        coefficients = 2 * pixels * sum(across * down for across, down in layers) // most
        scale = scale or draft_scale(image, at_least)
        return coefficients + _COPIES * pixels // scale**2
    copies = _COPIES if at_least is None or pixels <= LARGE_PIXELS else 0
    moving = image.format in _MOVING_BYTES and getattr(image, "is_animated", False)
    return ((_MOVING_BYTES if moving else _STILL_BYTES)[image.format or ""] + copies) * pixels


def draft_scale(image: Image.Image, at_least: int | None) -> int:
    """How many times smaller an open image can be decoded, with no side below `at_least`.

    Only the decoder of JPEGs can leave out what is not needed: 1 for other formats.
    """
    if at_least is None or image.format not in _JPEGS:
        return 1
    return next(scale for scale in (8, 4, 2, 1) if scale == 1 or min(image.size) // scale >= at_least)


def decoded(
    image: Image.Image,
    at_least: int | None,
    frames: int = 1,
    *,
    scale: int | None = None,
    copied: bool = True,
) -> Iterator[Image.Image]:
    """The frames of an open image as RGB, upright, near the size asked for; inside `decoder_errors`.

    A JPEG is decoded so many times smaller as `scale` says, or else `draft_scale`. Frames that are `copied`
    outlive the open image and its next frame. Else as in `decode_frames`.
    """
    scale = scale or draft_scale(image, at_least)
    if scale > 1:
        image.draft("RGB", (image.width // scale, image.height // scale))
    for number in _frame_numbers(image, frames):
        if number != image.tell():
            image.seek(number)
        image.load()
        turn = _turn(image)
        shown = _shown_part(image)
        factor = 1 if at_least is None else min(image.size) // at_least
        if factor > 1 and image.width * image.height > LARGE_PIXELS:
            rgb = _reduced(shown, factor)
        else:
            rgb = _as_rgb(shown, copied=copied)
        yield rgb if turn is None else rgb.transpose(turn)


def _frame_numbers(image: Image.Image, frames: int) -> list[int]:
    """Which frames of an animation to take, evenly spaced."""
    if image.format not in ANIMATED:
        return [image.tell()]
    # The default image of an APNG need not be part of the animation, and then no browser shows it.
    first = 1 if getattr(image, "default_image", False) else 0
    if frames == 1:
        return [first]
    last = getattr(image, "n_frames", 1) - 1
    return sorted({first + round(k * (last - first) / (frames - 1)) for k in range(frames)})


def _turn(image: Image.Image) -> Image.Transpose | None:
    # Damaged EXIF on a sound image: it is shown as it lies, as viewers do.
    with suppress(Exception):
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return None


def _shown_part(image: Image.Image) -> Image.Image:
    """The image; of a GIF whose first frame does not fill it, that frame on the background."""
    if image.format != "GIF" or image.tell() != 0:
        return image
    extent = getattr(image, "dispose_extent", None)
    if extent is None or extent == (0, 0, *image.size):
        return image
    canvas = Image.new("RGB", image.size, BACKGROUND)
    canvas.paste(_as_rgb(image.crop(extent)), extent[:2])
    return canvas


def _reduced(image: Image.Image, factor: int) -> Image.Image:
    """A large image as RGB, reduced by a whole factor; in strips, as a copy of the whole takes room."""
    width, height = -(-image.width // factor), -(-image.height // factor)
    small = Image.new("RGB", (width, height))
    rows = max(1, _STRIP_PIXELS // image.width // factor) * factor
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        small.paste(_as_rgb(strip).reduce(factor), (0, top // factor))
    return small


def _as_rgb(image: Image.Image, *, copied: bool = True) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_wide_grey(image)
    if image.has_transparency_data:
        layered = image if image.mode == "RGBA" else image.convert("RGBA")
        canvas = Image.new("RGB", layered.size, BACKGROUND)
        canvas.paste(layered, mask=layered.getchannel("A"))
        return canvas
    # Of other formats a copy, as their images hold on to decoders or become the next frame.
    itself = image.mode == "RGB" and (image.format == "JPEG" or not copied)
    return image if itself else image.convert("RGB")


def _from_wide_grey(image: Image.Image) -> Image.Image:
    """16-bit grey, which Pillow's own conversion would clip at 255."""
    import numpy as np  # here, as a process that only decodes starts sooner without it

    transparent = image.info.get("transparency")
    grey = np.empty((image.height, image.width), dtype=np.uint8)
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):  # in strips, as wide numbers take room
        values = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
        strip = np.clip(np.round(values / 257), 0, 255).astype(np.uint8)
        if isinstance(transparent, int):
            strip = np.where(values == transparent, np.uint8(BACKGROUND[0]), strip)
        grey[top : top + rows] = strip
    return Image.fromarray(grey).convert("RGB")


def convert_image(
    image: Image.Image, path: str | os.PathLike[str] = "<image>", *, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """A copy in RGB and upright of one of Pillow's images, as `decode_image` would have given it.

    One that was opened only is decoded here, one at a time.

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
    with decoder_errors(path, max_pixels):
        with _opened_images:
            own = image.copy()
        return next(decoded(own, None))
