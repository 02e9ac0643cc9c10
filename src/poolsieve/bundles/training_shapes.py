"""Which shapes the training images had, and whether a way of making images square suits what was learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from poolsieve.strict_json import FromZero
from poolsieve.view_settings import ResizeMode

SQUARE_WITHIN = 1.02
"""An image is a square if its longer side is at most this many times the shorter one."""
ALL = 0.98
"""From this share of squares on, bars are too rare to be learnt."""
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class TrainingShapes:
    """Shapes of training images before they were made square.

    Attributes:
        images: How many there were.
        squares: How many of them were squares.
        aspects: Width by height: the 5% quantile, the median and the 95% quantile.
    """

    images: int
    squares: FromZero
    aspects: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not 0 <= self.squares <= self.images:
            raise ValueError(f"{self.squares} squares among {self.images} training images cannot be")

    @classmethod
    def of(cls, sizes: ArrayLike) -> TrainingShapes:
        """Of images with these widths and heights.  # (images, 2)."""
        table = np.asarray(sizes, dtype=np.float64)
        squares = int(np.sum(table.max(axis=1) <= SQUARE_WITHIN * table.min(axis=1)))
        low, middle, high = (float(value) for value in np.quantile(table[:, 0] / table[:, 1], QUANTILES))
        return cls(len(table), squares, (round(low, 3), round(middle, 3), round(high, 3)))

    @property
    def all_square(self) -> bool:
        """Whether networks trained on them cannot have learnt what bars are."""
        return self.squares >= ALL * self.images

    @property
    def fitting(self) -> ResizeMode:
        """How images are best made square for networks that learn from these.

        Squares show no bars however they are treated, and most were stretched or cropped by somebody before:
        networks that learn from them know images that fill the square. Others are padded, which keeps the
        proportions of things, and networks see the bars while they learn.
        """
        return "stretch" if self.all_square else "pad"

    def describe(self) -> str:
        """For people, in a few words."""
        if self.squares == self.images:
            return "all training images are squares"
        low, middle, high = self.aspects
        return (
            f"{self.squares:,} of {self.images:,} training images are squares; width by height is mostly "
            f"{low:.2f} to {high:.2f}, median {middle:.2f}"
        )

    def misfit(self, resize_mode: ResizeMode) -> str | None:
        """What is wrong with making images square in this way, if anything."""
        if resize_mode == "stretch" or not self.all_square:
            return None
        return (
            f"{self.describe()}, so the networks know no bars, but photographs of other shapes are padded "
            "with them and more of what should be flagged is missed"
        )
