"""How long a chunk will take to be judged, learnt from those that were."""

from __future__ import annotations

import math

_MEMORY = 0.9
"""Share of what was known that is kept when a chunk is added."""
_DEVIATIONS = 2.0
"""Standard deviations that a prediction lies above the mean, as being late is worse than being early."""


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
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)  # of weights, n, n², seconds and n·seconds

    def add(self, images: int, seconds: float, now: float) -> None:
        """Learn from one chunk."""
        if self.known_at > -math.inf:
            miss = abs(seconds - self._fixed - self._each * images)
            self._error = _MEMORY * self._error + (1 - _MEMORY) * miss * 1.25  # mean deviation to standard
        new = (1.0, images, images * images, seconds, images * seconds)
        self._sums = tuple(_MEMORY * old + value for old, value in zip(self._sums, new, strict=True))  # type: ignore[assignment]
        weight, n, nn, s, ns = self._sums
        spread = weight * nn - n * n
        slope = (weight * ns - n * s) / spread if spread > 1e-6 * nn * weight else 0.0
        if slope <= 0:  # chunks of one size, or noise: as if nothing were fixed
            slope = ns / nn
        self._each = min(slope, s / n)
        self._fixed = max(0.0, (s - self._each * n) / weight)
        self.known_at = now

    def seconds(self, images: int) -> float:
        """Seconds that a chunk of so many images will take, with a margin."""
        return self._fixed + self._each * images + _DEVIATIONS * self._error if images else 0.0

    def most_images(self, seconds: float, at_most: int) -> int:
        """The largest chunk, up to a limit, that will be done within so many seconds."""
        left = seconds - self.seconds(1)
        return 0 if left < 0 else min(at_most, 1 + int(left / max(self._each, 1e-9)))
