"""Whether what pools say tells bad images from clear ones better than the cheap head alone."""

from __future__ import annotations

import numpy as np

from poolsieve.bundles.recordings import Recordings
from poolsieve.planning.candidate import Candidate
from poolsieve.planning.paired import CONFIDENCE
from poolsieve.statistics import auc_difference


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
    ill = bad[candidate.images]
    if min(np.count_nonzero(weights[kind]) for kind in (ill, ~ill)) < 2:
        return False
    gain = auc_difference(
        candidate.values,
        head[candidate.images],
        ill,
        weights=weights,
        groups=candidate.images,
        confidence=2 * CONFIDENCE - 1,  # of both sides; the lower end is surely below
    )
    return gain.low > 0
