"""What another threshold would change, from people's decisions, and which one to suggest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.statistics import Estimate, exact_lower, proportion

LEAST_DECIDED = 30
"""Rejected images that a suggestion needs at least."""
_STEPS = np.round(np.arange(0.05, 1.0, 0.05), 2)
_MOST_LOST = 0.01


@dataclass(frozen=True)
class ThresholdChange:
    """What a threshold would do to the images that people have decided.

    Attributes:
        threshold: From which score on images are flagged.
        flags: Share of the present flags that would be left.
        precision: Share of bad images among them.
        kept: Share of the bad ones among the present flags that would still be flagged.
        kept_at_least: What that share is at least, with 95% confidence.
    """

    threshold: float
    flags: float
    precision: Estimate
    kept: float
    kept_at_least: float


def changes(scores: NDArray[np.float64], bad: NDArray[np.bool_], present: float) -> list[ThresholdChange]:
    """What thresholds above the present one would change.

    Args:
        scores: Of decided flags.  # (N,)
        bad: Whether people rejected them.  # (N,)
        present: The threshold in force.
    """
    found = []
    total = int(bad.sum())
    for threshold in _STEPS[present < _STEPS]:
        above = scores >= threshold
        kept = int((above & bad).sum())
        least = float(exact_lower(kept, total, 0.95)) if total else 0.0
        found.append(
            ThresholdChange(
                float(threshold),
                float(above.mean()) if len(above) else 0.0,
                proportion(kept, int(above.sum())),
                kept / total if total else 0.0,
                least,
            )
        )
    return found


def suggested(options: list[ThresholdChange], rejected: int) -> ThresholdChange | None:
    """The threshold that spares people most flags and surely keeps nearly all bad images; None if none does.

    Args:
        options: What thresholds would change.
        rejected: Rejected images that they rest on.
    """
    if rejected < LEAST_DECIDED:
        return None
    # With few images even no loss at all proves little: one more loss than that is not allowed either.
    allowed = max(_MOST_LOST, 3.0 / rejected)
    good = [one for one in options if one.kept_at_least >= 1 - allowed and one.flags < 1]
    return min(good, key=lambda one: (one.flags, one.threshold)) if good else None
