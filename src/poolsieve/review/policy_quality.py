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
    distribution with Jeffreys' prior; missed images from the gamma distribution of a Poisson count with that
    prior, on one scale for all weights (Fay and Feuer 1997), narrower the more of them was looked at.

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
    rest = rng.binomial(flagged - decided, rng.beta(bad + 0.5, decided - bad + 0.5, _DRAWS))
    drawn = _share(bad + rest, _missed_draws(scales, misses, looked, rng))
    low, high = np.quantile(drawn, (0.025, 0.975))
    value = found / (found + missed)
    return Estimate(value, min(float(low), value), max(float(high), value))


def _missed_draws(
    scales: NDArray[np.float64],
    misses: NDArray[np.int64],
    looked: Sequence[SampledClear],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    numbers = np.array([one.decided for one in looked], dtype=np.float64)
    missed = float(scales @ misses)
    # One scale for all: that of the misses, or of what was looked at if nothing was missed.
    scale = float(scales**2 @ misses) / missed if missed else float(scales @ numbers / numbers.sum())
    drawn = scale * rng.gamma(missed / scale + 0.5, 1.0, _DRAWS)
    unseen = math.sqrt(max(1 - 1 / scale, 0.0))
    result: NDArray[np.float64] = missed + (drawn - missed) * unseen
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
