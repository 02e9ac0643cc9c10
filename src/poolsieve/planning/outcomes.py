"""What a trial comes to at each of its bounds and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.planning.trial import Trial
from poolsieve.recordings import Recordings

THRESHOLDS = np.concatenate(
    [np.arange(0.02, 0.1, 0.02), np.arange(0.1, 0.95, 0.05), [0.95, 0.97, 0.98, 0.99]]
).round(4)
"""Individual thresholds to choose from: coarse, so that none is picked for the sake of single images."""
USUAL_THRESHOLD = 0.5


@dataclass(frozen=True)
class Outcomes:
    """Estimates for all bounds (rows) and individual thresholds (columns).

    Attributes:
        sensitivity: Share of bad images that are flagged.  # (bounds, thresholds)
        specificity: Share of clear images that are not.  # (bounds, thresholds)
        backs: Runs of the back for each image.  # (bounds,)
    """

    sensitivity: NDArray[np.float64]
    specificity: NDArray[np.float64]
    backs: NDArray[np.float64]


def outcomes(
    trial: Trial,
    recordings: Recordings,
    prevalence: float,
    thresholds: NDArray[np.float64] = THRESHOLDS,
    among: NDArray[np.bool_] | None = None,
) -> Outcomes:
    """Estimate what a trial comes to.

    An image is flagged if the individual network says so and it is asked. So the sensitivity is that of the
    individual network on all bad images, less the share that it would have found but was not asked about;
    only the latter depends on pools. Pools that flag by themselves are counted as they are.

    Args:
        trial: The trial.
        recordings: What it was tried on.
        prevalence: Share of bad images.
        thresholds: Individual thresholds.
        among: Images that count; None for all.
    """
    bad = recordings.bad
    among = np.ones(len(bad), dtype=bool) if among is None else among
    weights = trial.weights(bad, among)
    row = np.searchsorted(trial.bounds, trial.values, side="right")  # bounds that the value reaches
    scores = recordings.scores
    column = np.searchsorted(thresholds, scores, side="left")  # thresholds that the score exceeds
    flagged, asked = [], []
    for kind in (bad & among, ~bad & among):
        mine = kind[trial.images]
        at_once = (trial.at_once & kind).sum() / kind.sum()
        reached = np.bincount(row[mine], weights[mine], len(trial.bounds) + 1)
        above = reached[::-1].cumsum()[::-1][1:]  # share of images from each bound on
        if trial.tests:
            exceeded = np.bincount(column[kind & ~trial.cleared], minlength=len(thresholds) + 1)
            exceeding = exceeded[::-1].cumsum()[::-1][1:]
            cell = row[mine] * (len(thresholds) + 1) + column[trial.images[mine]]
            table = np.bincount(cell, weights[mine], (len(trial.bounds) + 1) * (len(thresholds) + 1))
            table = table.reshape(len(trial.bounds) + 1, -1).cumsum(axis=0)[:-1]  # below each bound
            missed = table[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
            flagged.append(exceeding / kind.sum() - missed)
            asked.append(at_once + above)
        else:
            flagged.append(np.repeat(above[:, None], len(thresholds), axis=1))
            asked.append(np.zeros_like(above))
    pools = sum(
        share * trial.pools[kind].mean()
        for share, kind in ((prevalence, bad & among), (1 - prevalence, ~bad & among))
    )
    backs = pools + prevalence * asked[0] + (1 - prevalence) * asked[1]
    return Outcomes(np.clip(flagged[0], 0, 1), 1 - np.clip(flagged[1], 0, 1), backs)
