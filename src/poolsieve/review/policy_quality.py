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
from poolsieve.statistics.proportions import EXACT

_DRAWS = 20_000


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
    """Share of the decided flags that people rejected, with a mid-p 95% interval."""
    return mid_p(bad, decided)


def sensitivity(
    flagged: int, decided: int, bad: int, clear: Sequence[SampledClear], rng: np.random.Generator
) -> Estimate:
    """Share of all bad images that were flagged, with a 95% interval.

    The share is that of these images: known once all clear ones were looked at, and less sure for others.
    The interval takes quantiles of draws: flags that nobody has decided yet from the beta-binomial
    distribution with Jeffreys' prior; missed images that nobody has looked at from the Poisson distribution
    whose mean is a sum of gamma distributed ones, one for each rate with the misses seen as its shape.

    For the end with most misses Fay and Feuer (1997) add one more, at the largest weight, which is exact for
    one rate and too wide; Fay and Kim (2017) add it in half of the draws, for both ends. Here it is `EXACT`
    of the draws for that end, and the rest of them for the other, there at the mean weight of what was
    missed. As in `mid_p`, an end takes both tails where the other one cannot err: where even a sample without
    a miss would leave as many misses possible.

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
    unseen = (scales - 1) @ rng.standard_gamma(misses[:, None], (len(scales), _DRAWS))
    another = rng.standard_exponential(_DRAWS)
    exact = rng.random(_DRAWS) < EXACT
    largest = float(scales.max())
    usual = float(scales**2 @ misses) / missed if missed else largest
    many = misses.sum() + rng.poisson(unseen + (largest - 1) * another * exact)
    few = misses.sum() + rng.poisson(unseen + (usual - 1) * another * ~exact)
    low = np.quantile(_share(rest, many), 0.025)
    one_tail, two_tails = np.quantile(_share(rest, few), (0.95, 0.975))
    none_seen = found / (found + largest * math.log(EXACT / 0.05))
    high = max(one_tail, min(two_tails, none_seen))
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
