"""HEIC and AVIF, which phones send: read only where the extra `heif` is installed.

Their decoders are large and young, so strangers reach them only where somebody asked for that.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Literal

from PIL import Image

HeifFormat = Literal["HEIF", "AVIF"]

_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})
_CONTAINER_BRANDS = frozenset({b"mif1", b"mif2", b"msf1"})
_MOST_BRANDS = 64


def heif_format(data: bytes) -> HeifFormat | None:
    """Whether bytes are a HEIC or AVIF file, by the brands at their beginning."""
    if data[4:8] != b"ftyp":
        return None
    length = min(int.from_bytes(data[:4], "big"), 16 + 4 * _MOST_BRANDS)
    major, others = data[8:12], {data[place : place + 4] for place in range(16, length, 4)}
    if major in _AVIF_BRANDS or (major in _CONTAINER_BRANDS and others & _AVIF_BRANDS):
        return "AVIF"
    return "HEIF" if major in _HEIC_BRANDS | _CONTAINER_BRANDS else None


def open_heif(data: bytes, kind: HeifFormat) -> Image.Image:
    """Read the header of a HEIC or AVIF file; ImportError without the extra `heif`."""
    register_heif()
    return Image.open(io.BytesIO(data), formats=(kind,))


@cache
def register_heif() -> None:
    """Make Pillow know both formats; ImportError without the extra `heif`."""
    import pillow_heif
    from PIL import AvifImagePlugin, features

    if not features.check("avif"):
        raise ImportError("this build of Pillow reads no AVIF")
    # One thread: processors are shared among images already. No thumbnails: they may show something else.
    pillow_heif.register_heif_opener(decode_threads=1, thumbnails=False, depth_images=False, aux_images=False)
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
