"""Area under the ROC curve with its interval, and how far two scores of the same images lie apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import rankdata


@dataclass(frozen=True)
class Estimate:
    """A measured value with its 95% interval.

    Attributes:
        value: What was measured.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


def area(scores: ArrayLike, bad: ArrayLike, groups: ArrayLike | None = None) -> Estimate:
    """How often a bad image or pool has a higher score than a good one; ties count half.

    The interval is that of DeLong, DeLong and Clarke-Pearson (1988).

    Args:
        scores: Higher = worse.  # (N,)
        bad: Labels.  # (N,)
        groups: Numbers of what is independent, such as the bad image that several pools share; by default
            all are. Variances are then those between groups (Obuchowski 1997).  # (N,)
    """
    flags = np.asarray(bad) != 0
    found = _estimate(_placements(scores, flags), flags, groups)
    return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0))


def area_gain(
    scores: ArrayLike, other: ArrayLike, bad: ArrayLike, groups: ArrayLike | None = None
) -> Estimate:
    """Area of `scores` minus that of `other` scores of the same images or pools; see `area`."""
    flags = np.asarray(bad) != 0
    return _estimate(_placements(scores, flags) - _placements(other, flags), flags, groups)


def _placements(scores: ArrayLike, flags: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For a bad one the share of good ones below it, for a good one that of bad ones above.  # (N,)."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.shape != flags.shape:
        raise ValueError(f"one score and one label for each; got {values.shape} and {flags.shape}")
    if min(flags.sum(), (~flags).sum()) < 2:
        raise ValueError(f"{flags.sum()} bad and {(~flags).sum()} good ones; at least 2 of each are needed")
    own = np.empty(len(values))
    for kind in (flags, ~flags):
        own[kind] = rankdata(values[kind])
    below = rankdata(values) - own  # those of the other kind
    result: NDArray[np.float64] = np.where(flags, below / (~flags).sum(), 1 - below / flags.sum())
    return result


def _estimate(
    placements: NDArray[np.float64], flags: NDArray[np.bool_], groups: ArrayLike | None
) -> Estimate:
    numbers = np.arange(len(flags)) if groups is None else np.asarray(groups)
    value = float(placements[flags].mean())
    variance = 0.0
    for kind in (flags, ~flags):
        _, group = np.unique(numbers[kind], return_inverse=True)
        sums = np.bincount(group, weights=placements[kind] - value)
        variance += np.square(sums).sum() / kind.sum() ** 2 * len(sums) / max(len(sums) - 1, 1)
    half = float(ndtri(0.975)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)
