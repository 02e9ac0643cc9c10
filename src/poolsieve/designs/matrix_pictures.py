"""Pictures of the matrix: with matplotlib, and in the characters of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from poolsieve.designs.pooling import NO_IMAGE, Pooling
from poolsieve.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BRAILLE = 0x2800
_DOT_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # (4 rows, 2 columns)
_MOST_CELLS = 2000
"""A figure shows at most so many pools or images a side; larger matrices are drawn coarser."""


def plot_design(design: Pooling) -> Axes:
    """Draw the matrix, pools down and images across, with a dark cell for every image in a pool.

    Raises:
        ImportError: matplotlib is missing.
    """
    height = np.clip(10 * design.pool_count / design.images, 2, 12) + 1
    axes = new_figure(figsize=(10, height), layout="constrained").add_subplot()
    cells = _coarse(design, max(1, -(-max(design.shape) // _MOST_CELLS)))
    axes.imshow(
        cells,
        cmap="Greys",
        interpolation="nearest",
        aspect="auto",
        extent=(-0.5, design.images - 0.5, design.pool_count - 0.5, -0.5),
    )
    axes.set_xlabel("image")
    axes.set_ylabel("pool")
    axes.set_title(
        f"{design.pool_count} pools × {design.images} images, pool size {design.pool_size}, "
        f"{design.pools_per_image} pools per image"
    )
    return axes


def render_text(design: Pooling, width: int = 60) -> str:
    """The matrix in braille characters, pools down and images across, two images and four pools each.

    Where the matrix is too large for `width` characters across (and half as many down), a dot stands for a
    square of entries and is set if any of them is one.
    """
    if width < 1:
        raise ValueError(f"width={width}: a picture needs at least one character")
    tallest = max(1, width // 2)
    scale = max(1, -(-design.images // (2 * width)), -(-design.pool_count // (4 * tallest)))
    dots = _coarse(design, scale)
    dots = np.pad(dots, ((0, -len(dots) % 4), (0, -dots.shape[1] % 2)))
    cells = dots.reshape(len(dots) // 4, 4, -1, 2)  # (lines, 4, characters, 2)
    codes = _BRAILLE + np.einsum("lrcd,rd->lc", cells, _DOT_BITS)
    return "\n".join("".join(map(chr, line)) for line in codes.tolist())


def _coarse(design: Pooling, scale: int) -> np.ndarray:
    """Whether any entry is one in each square of `scale` pools × `scale` images.  # bool."""
    pool, place = np.nonzero(design.pools != NO_IMAGE)
    cells = np.zeros((-(-design.pool_count // scale), -(-design.images // scale)), dtype=bool)
    cells[pool // scale, design.pools[pool, place] // scale] = True
    return cells
