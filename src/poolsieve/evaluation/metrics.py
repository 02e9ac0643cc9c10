"""Sensitivity and specificity, with intervals that know that errors of one chunk come together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri


@dataclass(frozen=True)
class Proportion:
    """A measured share with its 95% interval; NaN where there was nothing to measure.

    Attributes:
        value: Successes / total.
        low: Lower end of the interval.
        high: Upper end of the interval.
        total: Number of images it rests on.
    """

    value: float
    low: float
    high: float
    total: int

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]" if self.total else "undefined"


@dataclass(frozen=True)
class Detection:
    """Sensitivity and specificity of one method."""

    sensitivity: Proportion
    specificity: Proportion


def proportion(successes: ArrayLike, totals: ArrayLike, *, confidence: float = 0.95) -> Proportion:
    """Share of successes with Wilson's interval, for independent clusters of dependent trials.

    Images of one chunk are decoded together, so their errors are not independent. The variance is therefore
    estimated between chunks, and Wilson's interval uses the number of independent images that would have
    that variance, at most the images there are. Without a single failure (or success) nothing tells how
    errors come together; each chunk then counts once, which is right even if they come by whole chunks. One
    cluster alone is taken as independent trials.

    Args:
        successes: Successes in each cluster.  # (clusters,)
        totals: Trials in each cluster.  # (clusters,)
        confidence: Coverage of the interval.
    """
    won = np.asarray(successes, dtype=np.float64)
    tried = np.asarray(totals, dtype=np.float64)
    total = tried.sum()
    if total == 0:
        return Proportion(math.nan, math.nan, math.nan, 0)
    share = won.sum() / total
    effective = total
    variance = share * (1 - share)
    clusters = np.count_nonzero(tried)
    if variance > 0 and clusters > 1:
        # Linearised variance of a ratio of cluster totals.
        between = ((won - share * tried) ** 2).sum() * clusters / (clusters - 1) / total**2
        effective = min(total, variance / between) if between > 0 else total
    elif variance == 0 and clusters > 1:
        effective = clusters
    z = float(ndtri(0.5 + confidence / 2))
    centre = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    half = z / (1 + z * z / effective) * math.sqrt(variance / effective + z * z / (4 * effective**2))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return Proportion(float(share), float(low), float(high), int(total))


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
