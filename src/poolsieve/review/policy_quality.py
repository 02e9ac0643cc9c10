"""How well a policy does, from people's decisions: precision, and sensitivity from sampled clear images.

Every flagged image gets a task; of the clear ones a random share does, each of which stands for as many clear
images as its weight says. Sensitivity is a/(a + b): a, bad images among the flagged ones; b, bad images among
the clear ones, the weighted sum over those that were sampled and rejected (Horvitz and Thompson 1952).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.statistics import Estimate, Proportion, mid_p

_DRAWS = 20_000
_EXACT = 0.6
"""Weight of the exact end of an interval against the end with one miss more or less; 1/2 is mid-p's, whose
coverage falls to 91.6 of 100 at three to four expected misses where this one's stays above 94."""


@dataclass(frozen=True)
class SampledClear:
    """Clear images that were sampled at one rate.

    Attributes:
        weight: Clear images that each stands for.
        sampled: How many were sampled.
        decided: How many of them people have decided.
        bad: How many of those were rejected.
    """

    weight: float
    sampled: int
    decided: int
    bad: int


def precision(decided: int, bad: int) -> Proportion:
    """Share of the decided flags that people rejected, with the mid-p 95% interval."""
    return mid_p(bad, decided)


def sensitivity(
    flagged: int, decided: int, bad: int, clear: Sequence[SampledClear], rng: np.random.Generator
) -> Estimate:
    """Share of all bad images that were flagged, with a 95% interval.

    The interval takes quantiles of draws: flags that nobody has decided yet from the beta-binomial
    distribution with Jeffreys' prior; missed images that nobody has looked at from the Poisson distribution
    whose mean is a sum of gamma distributed ones, one for each rate with the misses seen as its shape. Fay
    and Feuer (1997) add one more miss, at the largest weight, for the end with most misses, and none for the
    other, which is exact for one rate and too wide; Fay and Kim (2017) add it in half of the draws for both.
    Here it is added in `_EXACT` of the draws for the first end, and in the rest of them for the other.

    Args:
        flagged: Flagged images.
        decided: How many of them people have decided.
        bad: How many of those were rejected.
        clear: The sampled clear images, one for each rate that was in force.
        rng: Draws.

    Returns:
        NaN if no flag or no sampled image was decided yet.
    """
    looked = [one for one in clear if one.decided]
    if not decided or not looked:
        return Estimate(math.nan, math.nan, math.nan)
    found = bad + (flagged - decided) * bad / decided
    # What is not decided yet counts like what is: a decided one stands for more.
    scales = np.array([one.weight * one.sampled / one.decided for one in looked])
    misses = np.array([one.bad for one in looked])
    missed = float(scales @ misses)
    if found + missed == 0:
        return Estimate(math.nan, math.nan, math.nan)
    rest = bad + rng.binomial(flagged - decided, rng.beta(bad + 0.5, decided - bad + 0.5, _DRAWS))
    unseen = ((scales - 1)[:, None] * rng.standard_gamma(misses[:, None], (len(scales), _DRAWS))).sum(axis=0)
    another = (scales.max() - 1) * rng.standard_exponential(_DRAWS)
    mixed = rng.random(_DRAWS)
    few, many = (
        misses.sum() + rng.poisson(unseen + another * (mixed < share)) for share in (1 - _EXACT, _EXACT)
    )
    low, high = np.quantile(_share(rest, many), 0.025), np.quantile(_share(rest, few), 0.975)
    value = found / (found + missed)
    return Estimate(value, min(float(low), value), max(float(high), value))


def _share(found: NDArray[np.int64], missed: NDArray[np.int64]) -> NDArray[np.float64]:
    total = found + missed
    result: NDArray[np.float64] = np.divide(found, total, out=np.ones(len(total)), where=total > 0)
    return result


def against(promise: float | None, found: Estimate) -> str:
    """Whether a promise is "kept", "broken", or one "cannot tell yet"; "not promised" without one."""
    if promise is None:
        return "not promised"
    if not found.defined or found.low < promise <= found.high:
        return "cannot tell yet"
    return "kept" if found.low >= promise else "broken"
