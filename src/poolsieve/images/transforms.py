"""From an image of any shape to the square pixel array that a network takes, plain or augmented.

The paper ("Data Transformations") pads with zeros to a square, resizes, flips at random and rotates by up to
30° for pools. Random crops and colour changes are added here: with a frozen front the network learns its few
cached views by heart, so the views must differ. So are bars, as films and screenshots have them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.view_settings import DEFAULT_VIEWS, ResizeMode, ViewSettings

_GREY = np.array([0.299, 0.587, 0.114])  # ITU-R 601 luma
_MIDDLE = 127.5
_SMALLEST_PICTURE = 0.4
"""Share of height or width that bars leave: a photograph of 4:3 on a telephone held upright has .42."""


def make_square(
    image: Image.Image,
    size: int,
    resize_mode: ResizeMode = "pad",
    resample: Image.Resampling = Image.Resampling.BILINEAR,
) -> Image.Image:
    """Bring an image to size x size, padding with zeros or stretching.

    Padding keeps the proportions and centres the image.
    """
    if resize_mode not in ("pad", "stretch"):
        raise ValueError(f"resize_mode is {resize_mode!r}; give 'pad' or 'stretch'")
    if image.size == (size, size):
        return image
    if resize_mode == "stretch" or image.width == image.height:
        return image.resize((size, size), resample)
    scale = size / max(image.size)
    width, height = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return _with_bars(image, (width, height), size, resample=resample)


def plain_view(image: Image.Image, size: int, resize_mode: ResizeMode = "pad") -> NDArray[np.uint8]:
    """The view that is judged: squared and resized, nothing random. Shape (size, size, 3)."""
    return np.asarray(make_square(image, size, resize_mode))


def random_view(
    image: Image.Image,
    size: int,
    rng: np.random.Generator,
    resize_mode: ResizeMode = "pad",
    settings: ViewSettings = DEFAULT_VIEWS,
) -> NDArray[np.uint8]:
    """A random view: flip, rotation, crop, colour and bars drawn from `rng`. Shape (size, size, 3)."""
    square = make_square(image, size, resize_mode)
    # Always the same number of draws, so that one setting does not change what another one gives.
    mirrored, turn, area, shape, across, down = rng.random(6)
    colours = rng.uniform(1 - settings.colour, 1 + settings.colour, size=3)
    barred, upright, kept, dark = rng.random(4)
    plain = rng.integers(256, size=3)

    if settings.flip and mirrored < 0.5:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if settings.colour > 0:  # before turning, so that uncovered corners stay zero
        square = square.convert("RGB", _colour_matrix(*colours))
    if settings.rotation > 0 or settings.min_crop < 1:
        angle = math.radians((2 * turn - 1) * settings.rotation)
        share = settings.min_crop + (1 - settings.min_crop) * area
        ratio = (3 / 4) ** (2 * shape - 1) if settings.min_crop < 1 else 1.0
        width = min(1.0, math.sqrt(share * ratio)) * size
        height = min(1.0, math.sqrt(share / ratio)) * size
        centre = (width / 2 + across * (size - width), height / 2 + down * (size - height))
        square = square.transform(
            (size, size),
            Image.Transform.AFFINE,
            _affine(size, angle, width / size, height / size, centre),
            resample=Image.Resampling.BILINEAR,
        )
    if barred < settings.letterbox:
        shorter = max(1, round((_SMALLEST_PICTURE + (1 - _SMALLEST_PICTURE) * kept) * size))
        picture = (shorter, size) if upright < 0.5 else (size, shorter)
        square = _with_bars(square, picture, size, (0, 0, 0) if dark < 0.5 else tuple(map(int, plain)))
    return np.asarray(square)


def _with_bars(
    image: Image.Image,
    picture: tuple[int, int],
    size: int,
    fill: tuple[int, ...] = (0, 0, 0),
    resample: Image.Resampling = Image.Resampling.BILINEAR,
) -> Image.Image:
    """The image resized to `picture` pixels, in the middle of a plain square."""
    square = Image.new("RGB", (size, size), fill)
    corner = ((size - picture[0]) // 2, (size - picture[1]) // 2)
    square.paste(image.resize(picture, resample), corner)
    return square


def _affine(
    size: int, angle: float, stretch_x: float, stretch_y: float, centre: tuple[float, float]
) -> tuple[float, ...]:
    """Where each output pixel is taken from: scaled about the middle, turned, moved to `centre`."""
    cos, sin, middle = math.cos(angle), math.sin(angle), size / 2
    a, b = cos * stretch_x, -sin * stretch_y
    d, e = sin * stretch_x, cos * stretch_y
    return a, b, centre[0] - (a + b) * middle, d, e, centre[1] - (d + e) * middle


def _colour_matrix(brightness: float, contrast: float, saturation: float) -> tuple[float, ...]:
    """The 3x4 matrix that changes all three at once, in Pillow's order."""
    matrix = saturation * np.eye(3) + (1 - saturation) * _GREY[None, :]
    offset = _MIDDLE * (1 - contrast)
    rows = np.column_stack([brightness * contrast * matrix, np.full(3, offset)])
    return tuple(float(value) for value in rows.ravel())
