"""A cheap look at images one by one, which clears most of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.parameters import Interval, parameter
from poolsieve.schemes.runner import Chunk, Images
from poolsieve.schemes.stages import Stage, Undecided

BOUNDS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Posteriors that are worth trying as bounds."""
EARLY = 0.1
"""Before another look, a plan lets a look clear what it makes so many times less likely to be bad."""


@dataclass(frozen=True)
class Look(Stage):
    """A look that clears images, sets them aside or flags them, or leaves what it saw to the next stages.

    Attributes:
        clear_below: Images whose posterior by then is below this are clear.
        flag_above: Images whose posterior by then is above this are flagged at once; with 1 it never flags
            alone.
        test_above: Images whose posterior by then is not below this are not pooled; with 1 all may be.
    """

    clear_below: float = parameter(0.001, Interval(low=0, high=1))
    flag_above: float = parameter(1.0, Interval(low=0, high=1))
    test_above: float = parameter(1.0, Interval(low=0, high=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("flag_above", "test_above"):
            if getattr(self, name) < self.clear_below:
                raise ValueError(
                    f"{self.name}: {name}={getattr(self, name)} lies below clear_below={self.clear_below}"
                )

    @abstractmethod
    def log_likelihoods(self, chunk: Chunk, images: Images) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) of images.  # (len(images), 2)."""

    @property
    def bounded(self) -> bool:
        """Whether it decides anything; else it only gives priors."""
        return self.complexity > 0

    @property
    def complexity(self) -> int:
        """Its bounds."""
        return (self.clear_below > 0) + (self.flag_above < 1) + (self.test_above < 1)

    @property
    def way(self) -> str:
        """How people say it looks, after "a look" or "then"."""
        return f"by {self.called}"

    @property
    def first_look(self) -> str:
        """What people are told of it where it is the first."""
        return f"first look {self.way}"

    @property
    def bound(self) -> str | None:
        """What it clears by, if it decides anything."""
        return "clear_below" if self.bounded else None

    def futile(self, before: Sequence[Stage], prevalence: float) -> str | None:
        """Whether it clears all images, or flags all, whatever it sees."""
        if self.clear_below >= 1:
            return f"clears every image with clear_below={self.clear_below}; lower it, or leave the look out"
        if self.flag_above <= 0:
            return f"flags every image with flag_above={self.flag_above}; raise it, with 1 it flags none"
        return None

    def at(self, bound: float) -> dict[str, Any]:
        """Not all images, where odds are so long that their probability is 1 in floating point."""
        return {name: min(value, math.nextafter(1, 0)) for name, value in super().at(bound).items()}

    @property
    def unplanned(self) -> str | None:
        """Planning takes every flag for the individual network's, or that of pools."""
        return "flags images by itself, which is not planned for" if self.flag_above < 1 else None

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Bounds below which images are clear."""
        return {"clear_below": BOUNDS} if self.bounded else {}

    def look(self, undecided: Undecided) -> None:
        """Look, and decide by the bounds; without bounds the look waits until somebody needs it."""
        if not self.bounded:
            if self.known(undecided.chunk.likelihoods):
                undecided.later.append(self.see)
            return
        self.see(undecided)
        posteriors = undecided.posteriors()
        undecided.priors = posteriors
        undecided.decide(undecided.open & (posteriors < self.clear_below), posteriors, False, self.name)
        undecided.decide(undecided.open & (posteriors > self.flag_above), posteriors, True, self.name)
        if self.test_above < 1:
            undecided.aside |= undecided.open & (posteriors >= self.test_above)

    def see(self, undecided: Undecided) -> None:
        """Look at what is open, and decide nothing."""
        images = np.flatnonzero(undecided.open)
        if len(images):
            undecided.see(images, self.log_likelihoods(undecided.chunk, images))
