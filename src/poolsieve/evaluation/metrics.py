"""Sensitivity and specificity, with intervals that know that errors of one chunk come together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics import Proportion, proportion


@dataclass(frozen=True)
class Detection:
    """Sensitivity and specificity of one method."""

    sensitivity: Proportion
    specificity: Proportion


def detection(flags: NDArray[np.bool_], bad: NDArray[np.bool_]) -> Detection:
    """Sensitivity and specificity of flags against the truth, both (chunks, n)."""
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
    found: ArrayLike, bad: ArrayLike, cleared: ArrayLike, clear: ArrayLike
) -> Detection:
    """Detection from the counts of each chunk, so that flags need not be kept."""
    return Detection(proportion(found, bad), proportion(cleared, clear))
