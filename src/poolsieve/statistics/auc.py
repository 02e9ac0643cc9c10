"""Area under the ROC curve, its interval, and the difference of two areas on the same images."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics.estimates import Estimate


def auc(scores: ArrayLike, bad: ArrayLike) -> float:
    """How often a bad image or pool has a higher score than a good one; ties count half.

    Args:
        scores: Higher = worse.  # (N,)
        bad: Labels.  # (N,)
    """
    values, flags = _checked(scores, bad, 1)
    good = np.sort(values[~flags])
    places = (np.searchsorted(good, values[flags], side) for side in ("left", "right"))
    return float(sum(int(place.sum()) for place in places) / (2 * int(flags.sum()) * len(good)))


def auc_estimate(scores: ArrayLike, bad: ArrayLike, *, groups: ArrayLike | None = None) -> Estimate:
    """The area with the 95% interval of DeLong, DeLong and Clarke-Pearson (1988).

    Args:
        scores: Higher = worse.  # (N,)
        bad: Labels.  # (N,)
        groups: Numbers of what is independent, such as the bad image that several pools share; by default
            all are. Variances are then those between groups (Obuchowski 1997).  # (N,)
    """
    values, flags = _checked(scores, bad, 2)
    weights = np.ones(len(values))
    return _delong(_placements(values, flags, weights), flags, weights, groups, 0.95).clipped(0.0, 1.0)


def auc_difference(
    scores: ArrayLike,
    other: ArrayLike,
    bad: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Area of `scores` less that of `other` scores of the same images or pools; see `auc_estimate`.

    Args:
        scores: Higher = worse.  # (N,)
        other: Higher = worse.  # (N,)
        bad: Labels.  # (N,)
        weights: What each counts for; 1 by default.  # (N,)
        groups: Numbers of what is independent.  # (N,)
        confidence: Coverage of the interval.
    """
    values, flags = _checked(scores, bad, 2)
    others, _ = _checked(other, bad, 2)
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not counts[flags].any() or not counts[~flags].any():
        raise ValueError("all bad or all good ones have weight 0; nothing is left to compare")
    gains = _placements(values, flags, counts) - _placements(others, flags, counts)
    return _delong(gains, flags, counts, groups, confidence)


def auc_from_counts(area: float, bad: int, good: int) -> Estimate:
    """An area with a 95% interval from the numbers of bad and good ones alone (Hanley and McNeil 1982)."""
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = (bad - 1) * (first - area**2) + (good - 1) * (second - area**2)
    variance = max(area * (1 - area) + spread, 0.0) / max(bad * good, 1)
    return Estimate.normal(area, variance).clipped(0.0, 1.0)


def _checked(scores: ArrayLike, bad: ArrayLike, least: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, flags = np.asarray(scores, dtype=np.float64), np.asarray(bad) != 0
    if values.ndim != 1 or values.shape != flags.shape:
        raise ValueError(f"one score and one label for each; got {values.shape} and {flags.shape}")
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).sum()} of {len(values)} scores are no numbers (NaN)")
    if min(flags.sum(), (~flags).sum()) < least:
        raise ValueError(
            f"{flags.sum()} bad and {(~flags).sum()} good ones; at least {least} of each are needed"
        )
    return values, flags


def _placements(
    values: NDArray[np.float64], flags: NDArray[np.bool_], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For a bad one the share of good ones below it, for a good one that of bad ones above.  # (N,)."""
    result = np.empty(len(values))
    for mine, sign in ((flags, 1.0), (~flags, -1.0)):
        others = sign * values[~mine]
        order = np.argsort(others)
        below = np.append(0.0, np.cumsum(weights[~mine][order]))
        left, right = (
            np.searchsorted(others[order], sign * values[mine], side) for side in ("left", "right")
        )
        result[mine] = (below[left] + below[right]) / (2 * below[-1])
    return result


def _delong(
    placements: NDArray[np.float64],
    flags: NDArray[np.bool_],
    weights: NDArray[np.float64],
    groups: ArrayLike | None,
    confidence: float,
) -> Estimate:
    numbers = np.arange(len(flags)) if groups is None else np.asarray(groups)
    value, variance = 0.0, 0.0
    for kind in (~flags, flags):
        mine = kind & (weights > 0)
        share = weights[mine] / weights[mine].sum()
        value = float(share @ placements[mine])  # the same for both kinds
        _, group = np.unique(numbers[mine], return_inverse=True)
        sums = np.bincount(group, weights=share * (placements[mine] - value))
        variance += float(np.square(sums).sum()) * len(sums) / max(len(sums) - 1, 1)
    return Estimate.normal(value, variance, confidence=confidence)
