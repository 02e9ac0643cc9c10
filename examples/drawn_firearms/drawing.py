"""Drawing parts by their outlines: polygons with rounded corners, discs, screws and grooves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from drawn_firearms.shading import HOLLOW, Canvas, Material

Outline = str | Sequence[tuple[float, float]]
"""Corners, as pairs or as text: "10,20 30,20 30,40"."""


class Sheet:
    """Draws outlines onto a canvas, in the canvas's pixels.

    Args:
        width: Of the canvas.
        height: Of the canvas.
        rng: For the grain.
    """

    def __init__(self, width: int, height: int, rng: np.random.Generator) -> None:
        self.canvas = Canvas(width, height, rng)
        self._size = (width, height)

    def shape(
        self,
        outline: Outline,
        material: Material,
        bevel: float = 8,
        *,
        soft: int = 1,
        holes: Sequence[Outline] = (),
        angle: float = 0.0,
    ) -> None:
        """A part with straight or, by cutting corners `soft` times, rounded sides."""
        mask = self._filled(_rounded(outline, soft))
        for hole in holes:
            mask &= ~self._filled(_rounded(hole, soft))
        self.canvas.lay(mask, material, bevel, angle)

    def box(
        self, left: float, top: float, right: float, bottom: float, material: Material, bevel: float = 6
    ) -> None:
        """An upright rectangle."""
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.shape(corners, material, bevel, soft=0)

    def disc(
        self, x: float, y: float, radius: float, material: Material, bevel: float = 5, inner: float = 0
    ) -> None:
        """A disc or, with an inner radius, a ring."""
        around = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        circle = np.stack([np.cos(around), np.sin(around)], axis=1)
        place = np.array([x, y])
        outline, hole = (place + size * circle for size in (radius, inner))
        self.shape(outline.tolist(), material, bevel, soft=0, holes=[hole.tolist()] if inner else [])

    def screw(self, x: float, y: float, material: Material) -> None:
        """A screw head with its slot."""
        self.disc(x, y, 9, material, 4)
        self.shape([(x - 7, y - 3), (x + 6, y + 4), (x + 7, y + 2), (x - 6, y - 5)], HOLLOW, 1, soft=0)

    def serrations(
        self, left: float, right: float, top: float, bottom: float, step: float, lean: float
    ) -> None:
        """Narrow grooves side by side."""
        for x in np.arange(left, right, step):
            groove = [(x, top), (x + step * 0.4, top), (x + step * 0.4 + lean, bottom), (x + lean, bottom)]
            self.shape(groove, HOLLOW, 1, soft=0)

    def _filled(self, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        picture = Image.new("1", self._size)
        ImageDraw.Draw(picture).polygon([(float(x), float(y)) for x, y in corners], fill=1)
        return np.asarray(picture).copy()


def _rounded(outline: Outline, times: int) -> NDArray[np.float64]:
    """Chaikin's corner cutting.  # (corners, 2)."""
    pairs = [pair.split(",") for pair in outline.split()] if isinstance(outline, str) else outline
    corners = np.asarray(pairs, dtype=np.float64)
    for _ in range(times):
        after = np.roll(corners, -1, axis=0)
        cut = np.stack([0.82 * corners + 0.18 * after, 0.18 * corners + 0.82 * after], axis=1)
        corners = cut.reshape(-1, 2)
    return corners
