"""Whether what pools say tells bad images from clear ones better than the cheap head alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from poolsieve.planning.candidate import Candidate
from poolsieve.planning.paired import CONFIDENCE
from poolsieve.recordings import Recordings


def beats_head(candidate: Candidate, recordings: Recordings) -> bool:
    """Whether the AUC of a candidate's values is surely above that of the head on the same images.

    The interval of the difference is the one of E. DeLong and others ("Comparing the areas under two or more
    correlated receiver operating characteristic curves", Biometrics 44, 1988), with the candidate's
    weights, and an image of which there are several samples counted once. Without a head pools must beat
    chance.
    """
    bad, number = recordings.bad, len(recordings.bad)
    weights = candidate.weights(bad, np.ones(number, dtype=bool))
    head = np.zeros(number) if recordings.heads is None else recordings.heads
    ill, well = bad[candidate.images], ~bad[candidate.images]
    if not weights[ill].any() or not weights[well].any():
        return False
    differences = _placements(candidate.values, weights, ill) - _placements(
        head[candidate.images].astype(np.float64), weights, ill
    )
    mean, variance = 0.0, 0.0
    for mine in (ill, well):
        share = weights[mine] / weights[mine].sum()
        mean = float(share @ differences[mine])
        of_images = np.bincount(candidate.images[mine], share * (differences[mine] - mean), number)
        variance += float((of_images**2).sum())
    return mean > float(ndtri(CONFIDENCE)) * math.sqrt(variance)


def _placements(
    values: NDArray[np.float64], weights: NDArray[np.float64], ill: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """For each sample the share of the other kind that it is told from, ties counted half.  # (samples,)."""
    result = np.empty(len(values))
    for mine, sign in ((ill, 1.0), (~ill, -1.0)):
        others = sign * values[~mine]
        order = np.argsort(others)
        below = np.append(0.0, np.cumsum(weights[~mine][order]))
        left, right = (
            np.searchsorted(others[order], sign * values[mine], side) for side in ("left", "right")
        )
        result[mine] = (below[left] + below[right]) / (2 * below[-1])
    return result
