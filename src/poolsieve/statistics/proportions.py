"""Proportions with their intervals, for independent images and for those whose errors come together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics.estimates import Z95, Estimate

EXACT = 0.55
"""Part of the probability of what was seen that counts towards the tail beyond an end of `mid_p`'s interval.
1/2 is Lancaster's, 1 Clopper and Pearson's; with 1/2 the coverage falls to 90 of 100 at few successes."""
_LEAST = 1e-9
"""Fewer successes or failures than this are none."""
_MANY = 10_000
"""So many other images that their luck hardly matters."""


@dataclass(frozen=True)
class Proportion(Estimate):
    """A measured share with its 95% interval.

    Attributes:
        total: Number of images it rests on.
    """

    total: int


def proportion(successes: ArrayLike, totals: ArrayLike) -> Proportion:
    """Share of successes with Wilson's 95% interval, for independent clusters of dependent trials.

    Images of one chunk are decoded together, so their errors are not independent. The variance is therefore
    estimated between chunks, and Wilson's interval uses the number of independent images that would have
    that variance, at most the images there are. Without a single failure (or success) nothing tells how
    errors come together; each chunk then counts once, which is right even if they come by whole chunks. One
    cluster alone is taken as independent trials.

    Args:
        successes: Successes in each cluster, or one number.  # (clusters,)
        totals: Trials in each cluster, or one number.  # (clusters,)
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
    z = Z95
    centre = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    half = z / (1 + z * z / effective) * math.sqrt(variance / effective + z * z / (4 * effective**2))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return Proportion(float(share), float(low), float(high), int(total))


def mid_p(successes: int, total: int) -> Proportion:
    """Share of successes with a mid-p 95% interval of independent trials.

    Lancaster (1961) counts half of the probability of as many successes as were seen towards either tail;
    here it is `EXACT` of it. Equal tails of 2.5% hold the truth too often where one of them cannot err, since
    the interval of no success at all (or no failure) still holds it; there the other tail has all 5%, much as
    in Sterne's intervals (1954). Whatever the truth, the interval holds it with a probability of at least
    1 - 0.05 / `EXACT`, 91%.
    """
    if total == 0:
        return Proportion(math.nan, math.nan, math.nan, 0)
    low, high = _low_end(successes, total), 1 - _low_end(total - successes, total)
    return Proportion(successes / total, low, high, total)


def _low_end(successes: int, total: int) -> float:
    if successes == 0:
        return 0.0

    def too_much(share: float, tail: float) -> float:
        """Probability of more successes than were seen, and of a part of as many, beyond that of the tail."""
        reached = scipy.special.betainc(successes, total - successes + 1, share)
        above = scipy.special.betainc(successes + 1, total - successes, share) if successes < total else 0.0
        return float(EXACT * reached + (1 - EXACT) * above) - tail

    one_tail, two_tails = (scipy.optimize.brentq(too_much, 0, 1, (tail,)) for tail in (0.05, 0.025))
    most_after_none = 1 - (0.05 / EXACT) ** (1 / total)
    return float(min(one_tail, max(two_tails, most_after_none)))


def exact_upper(successes: ArrayLike, total: float, confidence: float) -> NDArray[np.float64]:
    """Clopper and Pearson's upper bound of a share, elementwise; numbers need not be whole.

    `scipy.stats.binomtest` takes one whole number at a time; a search asks for tables.

    Args:
        successes: Successes, at most `total`.
        total: Trials.
        confidence: How often, at least, the true share lies below the bound.
    """
    won = np.asarray(successes, dtype=np.float64)
    bound = scipy.special.betaincinv(won + 1, np.maximum(total - won, _LEAST), confidence)
    return np.where(won > total - _LEAST, 1.0, bound)


def exact_lower(successes: ArrayLike, total: float, confidence: float) -> NDArray[np.float64]:
    """Clopper and Pearson's lower bound of a share; see `exact_upper`."""
    won = np.asarray(successes, dtype=np.float64)
    bound = scipy.special.betaincinv(np.maximum(won, _LEAST), total - won + 1, 1 - confidence)
    return np.where(won < _LEAST, 0.0, bound)


def predicted_share(good: float, seen: float, others: float) -> tuple[float, float]:
    """Where the share of good ones among others lies in 95 of 100 cases.

    What was seen tells Jeffreys' beta distribution; the number among the others is then beta-binomial.

    Args:
        good: Good ones among those seen; need not be whole, like the numbers below.
        seen: Those seen.
        others: Those to come; more than `_MANY` are taken for as many.
    """
    n = max(1, round(min(others, _MANY)))
    k = np.arange(n + 1)
    a, b = good + 0.5, seen - good + 0.5
    logarithm = scipy.special.betaln(a + k, b + n - k) - scipy.special.betaln(k + 1.0, n - k + 1.0)
    probability = np.exp(logarithm - logarithm.max())
    below = np.cumsum(probability) / probability.sum()
    low, high = np.searchsorted(below, (0.025, 0.975))
    return float(low) / n, float(high) / n
