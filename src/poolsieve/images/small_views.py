"""Views for networks that shrink what they look at, from JPEGs that are decoded no larger than these need.

A network that begins with the mean of blocks of `shrink` x `shrink` pixels, such as a glance, sees no more
than an image of 1/`shrink` of the size. Where a JPEG can be decoded at a smaller scale for that, the network
is given a small view, of which every pixel stands for a block; else the view that all networks take, so that
nothing is gained and nothing changes. Which it is depends on the file and the size alone. Other decoders of
Pillow make all pixels, whatever is needed: PNG, WebP, GIF, BMP, HEIC and AVIF always have the one view.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.images.reading import (
    decode_image,
    decoded,
    decoder_errors,
    draft_scale,
    open_image,
    read_limited,
)
from poolsieve.images.transforms import make_square, plain_view
from poolsieve.view_settings import ResizeMode

SMALL_MARGIN = 1.2
"""Sides of an image that is decoded for a small view are so many times longer than those of the view.

A file of the networks' own size is not decoded any smaller, then: at a half its sides would be those of the
view. On test images as JPEGs of .9 to 3 megapixels, the glance's logits (of standard deviation 5.9) differ by
.46 (root mean square) at 1.05, by .37 at 1.2 and by .28 at 1.34; its AUC on 280 images by .0012 at most.
"""
_SMALL_FILTER = Image.Resampling.HAMMING
"""Nearest to a bilinear view of the whole size and the mean of its blocks: the bilinear filter blurs more
(.66 at a margin of 1.2), the box (.51), the bicubic (.44) and Lanczos (.47) are further off too."""


def small_scale(image: Image.Image, size: int, resize_mode: ResizeMode, shrink: int) -> int | None:
    """How many times smaller an open JPEG is decoded for a small view; None if it has no small view.

    The view that all networks take has sides of `size`, the small one is `shrink` times smaller.
    """
    whole = draft_scale(image, size)
    if shrink == 1 or image.format not in ("JPEG", "MPO"):
        return None
    side = max(image.size) if resize_mode == "pad" else min(image.size)
    wanted = SMALL_MARGIN * size / shrink
    return next((scale for scale in (8, 4, 2) if scale > whole and side // scale >= wanted), None)


def squared(
    image: Image.Image, size: int, resize_mode: ResizeMode, frames: int = 1, shrink: int = 1
) -> Iterator[Image.Image]:
    """The frames of an open image as squares, or its small view where it has one; inside `decoder_errors`.

    The small view is so many times smaller than `size`; 1 for no small view.
    """
    scale = small_scale(image, size, resize_mode, shrink)
    if scale is None:
        found = decoded(image, size, frames, copied=frames > 1)
        return (make_square(frame, size, resize_mode) for frame in found)
    small = size // shrink
    return (make_square(one, small, resize_mode, _SMALL_FILTER) for one in decoded(image, small, scale=scale))


def enlarged(view: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """A view in the size that networks take: a small one with every pixel as a block.  # (size, size, 3)."""
    times = size // len(view)
    return view if times == 1 else view.repeat(times, axis=0).repeat(times, axis=1)


def read_both_views(
    path: str | os.PathLike[str], size: int, resize_mode: ResizeMode, shrink: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read an image file in this process, whole and as a network takes it that shrinks it so many times.

    Both views have the same size, and are the same array where there is no small view.  # (size, size, 3)
    """
    data = read_limited(path)
    whole = plain_view(decode_image(data, path, at_least=size), size, resize_mode)
    with decoder_errors(path), open_image(data, path) as image:
        if small_scale(image, size, resize_mode, shrink) is None:
            return whole, whole
        return whole, enlarged(np.asarray(next(squared(image, size, resize_mode, shrink=shrink))), size)
