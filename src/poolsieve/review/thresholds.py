"""What another threshold would change, from people's decisions, and which one to suggest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.statistics import Estimate, exact_lower, mid_p

LEAST_DECIDED = 30
"""Rejected flags that a higher threshold is suggested from at least."""
LEAST_CAUGHT = 3
"""Sampled misses that a lower threshold must catch at least."""
_STEPS = np.round(np.arange(0.05, 1.0, 0.05), 2)
_MOST_LOST = 0.01
_MOST_FLAGS = 3.0


@dataclass(frozen=True)
class DecidedImages:
    """Decided images of one kind, flagged or clear.

    Attributes:
        scores: Of the individual test; NaN for images that did not come so far.  # (N,)
        bad: Whether people rejected them.  # (N,)
        weights: Images that each stands for.  # (N,)
    """

    scores: NDArray[np.float64]
    bad: NDArray[np.bool_]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class ThresholdChange:
    """What a threshold would do to the images that people have decided.

    Attributes:
        threshold: Above which score images are flagged.
        flags: Flags there would be, for each that there is.
        precision: Share of bad images among them; with its interval for a higher threshold.
        kept: Share of the bad ones among the present flags that would still be flagged.
        kept_at_least: What that share is at least, with 95% confidence.
        caught: Bad images among the sampled clear ones that would be flagged.
        sensitivity: Share of all bad images that would be flagged; NaN if nothing tells.
    """

    threshold: float
    flags: float
    precision: Estimate
    kept: float
    kept_at_least: float
    caught: int
    sensitivity: float


def changes(flagged: DecidedImages, clear: DecidedImages, present: float) -> list[ThresholdChange]:
    """What thresholds other than the present one would change, ascending.

    A higher one drops flags, all of which people see. A lower one flags images that were tested alone and
    found clear, of which people see the sampled ones; what an earlier stage has cleared stays clear.

    Args:
        flagged: Decided flags; those at or below the present threshold are from before it and do not count.
        clear: Decided sampled clear images.
        present: The threshold in force.
    """
    mine = flagged.scores > present
    scores, bad, weights = flagged.scores[mine], flagged.bad[mine], flagged.weights[mine]
    flags, found = float(weights.sum()), float(weights @ bad)
    missed = float(clear.weights @ clear.bad)
    result = []
    for threshold in _STEPS[~np.isclose(_STEPS, present)]:
        above = scores > threshold
        caught = np.zeros(len(clear.bad), dtype=bool)
        if threshold < present:
            caught = np.nan_to_num(clear.scores, nan=-1.0) > threshold
        more, more_bad = float(clear.weights @ caught), float(clear.weights @ (caught & clear.bad))
        left = float(weights @ above) + more
        bad_left = float(weights @ (above & bad)) + more_bad
        kept, total = int((above & bad).sum()), int(bad.sum())
        share = bad_left / left if left else math.nan
        result.append(
            ThresholdChange(
                float(threshold),
                left / flags if flags else 0.0,
                Estimate(share, math.nan, math.nan) if more else mid_p(kept, int(above.sum())),
                kept / total if total else 0.0,
                float(exact_lower(kept, total, 0.95)) if total else 0.0,
                int((caught & clear.bad).sum()),
                bad_left / (found + missed) if len(clear.bad) and found + missed else math.nan,
            )
        )
    return result


def suggested(
    options: list[ThresholdChange],
    present: float,
    rejected: int,
    sensitivity: float,
    promise: float | None,
) -> ThresholdChange | None:
    """The threshold to suggest, if any.

    Where the measured sensitivity lies below the promise: the highest of those below that reach it, or reach
    most if none does. Else the one above that spares most flags and surely keeps nearly all bad images.

    Args:
        options: What thresholds would change.
        present: The one in force.
        rejected: Rejected flags that they rest on.
        sensitivity: As measured; NaN if it is not.
        promise: The sensitivity that was promised.
    """
    if promise is not None and sensitivity < promise:
        lower = [
            one
            for one in options
            if one.threshold < present and one.caught >= LEAST_CAUGHT and one.flags <= _MOST_FLAGS
        ]
        wanted = min(promise, max((one.sensitivity for one in lower), default=0.0))
        return max(
            (one for one in lower if one.sensitivity >= wanted), key=lambda one: one.threshold, default=None
        )
    if rejected < LEAST_DECIDED:
        return None
    # With few images even no loss at all proves little: one more loss than that is not allowed either.
    allowed = max(_MOST_LOST, 3.0 / rejected)
    higher = [one for one in options if one.threshold > present and one.flags < 1]
    good = [one for one in higher if one.kept_at_least >= 1 - allowed]
    return min(good, key=lambda one: (one.flags, one.threshold)) if good else None
