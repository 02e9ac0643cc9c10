"""Sensitivity, specificity and precision, with intervals that know which errors come together.

Images of one chunk are decoded together. In a mixture each image is drawn many times, and one that is hard to
see is missed again and again; an interval must then come from resampling images and not draws. So chunks, or
distinct images, are the clusters of `poolsieve.statistics.proportion`, whose variance is that of the
bootstrap over clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.evaluation.mixtures import Mixture
from poolsieve.statistics import Proportion, proportion


@dataclass(frozen=True)
class Detection:
    """How well the bad images were found.

    Attributes:
        sensitivity: Share of bad images that were flagged.
        specificity: Share of ordinary images that were not.
        precision: Share of flags that were right; undefined without a flag.
    """

    sensitivity: Proportion
    specificity: Proportion
    precision: Proportion


def detection(flags: NDArray[np.bool_], bad: NDArray[np.bool_]) -> Detection:
    """Detection by flags against the truth, both (chunks, n)."""
    if flags.shape != bad.shape:
        raise ValueError(f"flags have shape {flags.shape}, the truth {bad.shape}")
    return detection_from_counts(*detection_counts(flags, bad))


def detection_counts(flags: NDArray[np.bool_], bad: NDArray[np.bool_]) -> tuple[NDArray[np.int64], ...]:
    """Found, bad, cleared and clear images of each chunk.  # four of (chunks,)."""
    found = (flags & bad).sum(axis=1)
    cleared = (~flags & ~bad).sum(axis=1)
    total_bad = bad.sum(axis=1)
    return found, total_bad, cleared, bad.shape[1] - total_bad


def detection_from_counts(
    found: NDArray[np.int64], bad: ArrayLike, cleared: NDArray[np.int64], clear: NDArray[np.int64]
) -> Detection:
    """Detection from the counts of each chunk, so that flags need not be kept."""
    flagged = found + clear - cleared
    return Detection(proportion(found, bad), proportion(cleared, clear), proportion(found, flagged))


@dataclass(frozen=True)
class ImageCounts:
    """How often each distinct image was drawn and flagged.

    Attributes:
        draws: Times that it was drawn.  # (distinct,)
        flags: Times that it was flagged.  # (distinct,)
        bad: Whether it is bad; False where it was never drawn.  # (distinct,)
    """

    draws: NDArray[np.int64]
    flags: NDArray[np.int64]
    bad: NDArray[np.bool_]

    @classmethod
    def count(cls, mixture: Mixture, flags: NDArray[np.bool_]) -> ImageCounts:
        """Count over a mixture.

        Args:
            mixture: What was drawn.
            flags: What was decided of each draw.  # (N,)
        """
        if flags.shape != mixture.images.shape:
            raise ValueError(f"{len(mixture)} images were drawn, but flags have shape {flags.shape}")
        distinct = int(mixture.images.max()) + 1
        bad = np.zeros(distinct, dtype=bool)
        bad[mixture.images] = mixture.bad
        return cls(
            np.bincount(mixture.images, minlength=distinct),
            np.bincount(mixture.images[flags], minlength=distinct),
            bad,
        )

    def detection(self) -> Detection:
        """The measures with their 95% intervals."""
        clear = ~self.bad
        return Detection(
            sensitivity=proportion(self.flags[self.bad], self.draws[self.bad]),
            specificity=proportion((self.draws - self.flags)[clear], self.draws[clear]),
            precision=proportion(self.flags * self.bad, self.flags),
        )
