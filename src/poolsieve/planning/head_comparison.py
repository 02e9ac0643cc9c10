"""Whether what pools say tells bad images from clear ones better than the cheap head alone."""

from __future__ import annotations

import numpy as np

from poolsieve.planning.paired import CONFIDENCE
from poolsieve.planning.trial import Trial
from poolsieve.recordings import Recordings
from poolsieve.statistics import auc_difference


def beats_head(trial: Trial, recordings: Recordings) -> bool:
    """Whether the AUC of a trial's values is surely above that of the head on the same images.

    The interval of the difference is the one of E. DeLong and others ("Comparing the areas under two or more
    correlated receiver operating characteristic curves", Biometrics 44, 1988), with the trial's weights, and
    an image that was tried several times counted once. Without a head pools must beat chance.
    """
    bad, number = recordings.bad, len(recordings.bad)
    weights = trial.weights(bad, np.ones(number, dtype=bool))
    head = np.zeros(number) if recordings.heads is None else recordings.heads
    tried = bad[trial.images]
    if min(np.count_nonzero(weights[kind]) for kind in (tried, ~tried)) < 2:
        return False
    gain = auc_difference(
        trial.values,
        head[trial.images],
        tried,
        weights=weights,
        groups=trial.images,
        confidence=2 * CONFIDENCE - 1,  # of both sides; the lower end is surely below
    )
    return gain.low > 0
