"""How long a chunk will take to be judged, learnt from those that were."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_MEMORY = 0.9
"""Share of what was known that is kept when a chunk is added."""
_DEVIATIONS = 2.0
"""Standard deviations that a prediction lies above the mean, as being late is worse than being early."""
_ANCHORS = ((1, 0.1), (64, 0.1))
"""Sizes at which every fit is held to the one before, brought to the present speed, and with what weight:
chunks of one image say nothing about those of 64, and what is refused for that is never seen."""
_OUTLIER = 3.0
"""A miss counts as no more than so many times the prediction: one halt of the machine is no habit."""


class RunTimes:
    """Predicts seconds from the number of images: a fixed part and one for each, fitted to the last chunks.

    Args:
        fixed: Seconds for any chunk, as long as nothing is known.
        each: Seconds for each image, as long as nothing is known.

    Attributes:
        known_at: When a chunk was last added.
    """

    def __init__(self, fixed: float = 0.05, each: float = 0.01) -> None:
        self.known_at = -math.inf
        self._fixed, self._each, self._error = fixed, each, 0.0
        self._sums = np.zeros(5)  # of weights, n, n², seconds and n·seconds

    def add(self, images: int, seconds: float, now: float) -> None:
        """Learn from one chunk."""
        expected = self.mean(images)
        if self.known_at > -math.inf:
            miss = min(abs(seconds - expected), _OUTLIER * expected)
            self._error = _MEMORY * self._error + (1 - _MEMORY) * miss * 1.25  # mean deviation to standard
        self._sums = _MEMORY * self._sums + _moments(images, seconds)
        weight, n, _, s, _ = self._sums
        speed = s / (self._fixed * weight + self._each * n)
        held = [share * _moments(size, speed * self.mean(size)) for size, share in _ANCHORS]
        weight, n, nn, s, ns = self._sums + sum(held)
        slope = (weight * ns - n * s) / (weight * nn - n * n)
        if slope <= 0:  # noise: as if nothing were fixed
            slope = ns / nn
        self._each = min(slope, s / n)
        self._fixed = max(0.0, (s - self._each * n) / weight)
        self.known_at = now

    def mean(self, images: int) -> float:
        """Seconds that a chunk of so many images takes."""
        return self._fixed + self._each * images if images else 0.0

    def margin(self, chunks: float = 1.0) -> float:
        """Seconds by which so many chunks may take longer; what they miss by does not add up."""
        return _DEVIATIONS * self._error * math.sqrt(chunks)

    def seconds(self, images: int) -> float:
        """Seconds that a chunk of so many images will take, with a margin."""
        return self.mean(images) + self.margin() if images else 0.0

    def most_images(self, seconds: float, at_most: int) -> int:
        """The largest chunk, up to a limit, that will be done within so many seconds."""
        left = seconds - self.seconds(1)
        return 0 if left < 0 else min(at_most, 1 + int(left / max(self._each, 1e-9)))


def _moments(images: int, seconds: float) -> NDArray[np.float64]:
    return np.array([1.0, images, images * images, seconds, images * seconds])
