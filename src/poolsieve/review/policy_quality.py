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

from poolsieve.statistics import Estimate, Proportion, proportion

_DRAWS = 20_000
_STEP = 0.25


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
    """Share of the decided flags that people rejected, with Wilson's 95% interval."""
    return proportion(bad, decided)


def sensitivity(
    flagged: int, decided: int, bad: int, clear: Sequence[SampledClear], rng: np.random.Generator
) -> Estimate:
    """Share of all bad images that were flagged, with a 95% interval.

    The interval takes quantiles of draws: flags that nobody has decided yet from the beta-binomial
    distribution with Jeffreys' prior; missed images that nobody has looked at from the Poisson distribution
    whose mean is a sum of gamma distributed ones, one for each rate with the misses seen as its shape. To it
    comes a step of 1/4 miss at the smallest weight for the upper end, of 3/4 at the largest for the lower
    (Fay and Feuer 1997 take 0 and 1, which is exact for one rate, and too wide; Jeffreys' 1/2 is too narrow).
    The step was chosen by coverage, among ten intervals for one rate.

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
    few = _missed_draws(scales, misses, _STEP, float(scales.min()), rng)
    many = _missed_draws(scales, misses, 1 - _STEP, float(scales.max()), rng)
    low, high = np.quantile(_share(rest, many), 0.025), np.quantile(_share(rest, few), 0.975)
    value = found / (found + missed)
    return Estimate(value, min(float(low), value), max(float(high), value))


def _missed_draws(
    scales: NDArray[np.float64],
    misses: NDArray[np.int64],
    step: float,
    scale: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Missed images: those seen, the others that they let expect, and a step of a miss on one scale."""
    means = (scales - 1) @ rng.standard_gamma(misses[:, None], (len(scales), _DRAWS))
    means += (scale - 1) * rng.standard_gamma(step, _DRAWS)
    result: NDArray[np.float64] = float(misses.sum()) + rng.poisson(means).astype(np.float64)
    return result


def _share(found: NDArray[np.int64], missed: NDArray[np.float64]) -> NDArray[np.float64]:
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
