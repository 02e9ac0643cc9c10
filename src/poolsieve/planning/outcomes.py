"""What a candidate comes to at each of its bounds and thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import Recordings
from poolsieve.planning.candidate import Candidate
from poolsieve.planning.paired import CONFIDENCE, loss_bound

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
        tested: Share of images that are tested individually.  # (bounds,)
        reaching: Share of the images that each stage looks at, but for the test of those that are left.
        pools: Pools for each image.
        lost: Share of bad images that individual testing flags and this does not.  # (bounds, thresholds)
        alarms: Share of clear images that this flags and individual testing does not.  # (bounds, thresholds)
        individual: Sensitivity and specificity of the individual testing that it is compared with.
        images: Bad and clear images that it rests on, fewer where some of them weigh more than others.
        structural: Where the loss of sensitivity, and where that of specificity, cannot be above 0 whatever
            the images: an image that is not asked about raises no alarm.  # 2 × (thresholds,)
    """

    sensitivity: NDArray[np.float64]
    specificity: NDArray[np.float64]
    tested: NDArray[np.float64]
    reaching: tuple[float, ...]
    pools: float
    lost: NDArray[np.float64]
    alarms: NDArray[np.float64]
    individual: tuple[float, float]
    images: tuple[float, float]
    structural: tuple[NDArray[np.bool_], NDArray[np.bool_]]

    @property
    def gained(self) -> NDArray[np.float64]:
        """Share of bad images that this flags and individual testing does not.  # (bounds, thresholds)."""
        return np.maximum(self.lost - self.individual[0] + self.sensitivity, 0)

    @property
    def spared(self) -> NDArray[np.float64]:
        """Share of clear images that individual testing flags and this does not.  # (bounds, thresholds)."""
        return np.maximum(self.alarms - self.individual[1] + self.specificity, 0)

    def loss_bounds(self, confidence: float = CONFIDENCE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Upper bounds of what is lost in sensitivity and in specificity.  # 2 × (bounds, thresholds)."""
        pairs = (self.lost, self.gained), (self.alarms, self.spared)
        sensitivity, specificity = (
            np.minimum(loss_bound(worse, better, number, confidence), np.where(never, 0.0, np.inf))
            for (worse, better), number, never in zip(pairs, self.images, self.structural, strict=True)
        )
        return sensitivity, specificity


def outcomes(
    candidate: Candidate,
    recordings: Recordings,
    prevalence: float,
    thresholds: NDArray[np.float64] = THRESHOLDS,
    among: NDArray[np.bool_] | None = None,
    reference: float = USUAL_THRESHOLD,
) -> Outcomes:
    """Estimate what a candidate comes to.

    An image is flagged if the individual network says so and it is asked. So the sensitivity is that of the
    individual network on all bad images, less the share that it would have found but was not asked about;
    only the latter depends on pools. Pools that flag by themselves are counted as they are.

    Args:
        candidate: The candidate.
        recordings: What it was seen on.
        prevalence: Share of bad images.
        thresholds: Individual thresholds.
        among: Images that count; None for all.
        reference: Threshold of the individual testing that it is compared with; one of `thresholds`.
    """
    bad = recordings.bad
    among = np.ones(len(bad), dtype=bool) if among is None else among
    weights = candidate.weights(bad, among)
    row = np.searchsorted(candidate.bounds, candidate.values, side="right")  # bounds that the value reaches
    scores = recordings.scores
    column = np.searchsorted(thresholds, scores, side="left")  # thresholds that the score exceeds
    usual = int(np.flatnonzero(thresholds == reference)[0])
    higher = np.maximum(np.arange(len(thresholds)), usual)  # exceeded by who exceeds both
    flagged, asked, common, images = [], [], [], []
    for kind in (bad & among, ~bad & among):
        mine = kind[candidate.images]
        at_once = (candidate.at_once & kind).sum() / kind.sum()
        reached = np.bincount(row[mine], weights[mine], len(candidate.bounds) + 1)
        above = reached[::-1].cumsum()[::-1][1:]  # share of images from each bound on
        if candidate.tests:
            exceeded = np.bincount(column[kind & ~candidate.cleared], minlength=len(thresholds) + 1)
            exceeding = exceeded[::-1].cumsum()[::-1][1:]
            cell = row[mine] * (len(thresholds) + 1) + column[candidate.images[mine]]
            table = np.bincount(cell, weights[mine], (len(candidate.bounds) + 1) * (len(thresholds) + 1))
            below = table.reshape(len(candidate.bounds) + 1, -1).cumsum(
                axis=0
            )  # each bound; all, in the last row
            missed = below[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:].astype(np.float64)  # none gives integers
            # Images that exceed a threshold may weigh more or less than they are.
            pooled = column[kind & ~candidate.cleared & ~candidate.at_once]
            own = np.bincount(pooled, minlength=len(thresholds) + 1)[::-1].cumsum()[::-1][1:] / kind.sum()
            missed[:-1] *= np.divide(own, missed[-1], out=np.ones_like(own), where=missed[-1] > 0)
            flagged.append(exceeding / kind.sum() - missed[:-1])
            asked.append(at_once + above)
            common.append(flagged[-1][:, higher])
        else:
            flagged.append(np.repeat(above[:, None], len(thresholds), axis=1))
            asked.append(np.zeros_like(above))
            both = mine & (scores > reference)[candidate.images]
            reached = np.bincount(row[both], weights[both], len(candidate.bounds) + 1)
            shared = reached[::-1].cumsum()[::-1][1:]
            common.append(np.repeat(shared[:, None], len(thresholds), axis=1))
        images.append(_telling(candidate, kind, weights, mine))
    pools = _share(candidate.pools, bad, among, prevalence)
    reaching = tuple(1 - _share(~reached, bad, among, prevalence) for reached in candidate.reached)
    tested = prevalence * asked[0] + (1 - prevalence) * asked[1]
    found, alarmed = (float((scores > reference)[kind & among].mean()) for kind in (bad, ~bad))
    never = np.zeros(len(thresholds), dtype=bool)
    return Outcomes(
        np.clip(flagged[0], 0, 1),
        1 - np.clip(flagged[1], 0, 1),
        tested,
        reaching,
        pools,
        lost=np.clip(found - common[0], 0, 1),
        alarms=np.clip(flagged[1] - common[1], 0, 1),
        individual=(found, 1 - alarmed),
        images=(images[0], images[1]),
        structural=(
            thresholds <= reference if len(candidate.scheme.stages) == 1 and candidate.tests else never,
            thresholds >= reference if candidate.tests else never,
        ),
    )


def _share(
    values: NDArray[Any], bad: NDArray[np.bool_], among: NDArray[np.bool_], prevalence: float
) -> float:
    """Mean over images where so many are bad."""
    return float(prevalence * values[bad & among].mean() + (1 - prevalence) * values[~bad & among].mean())


def _telling(
    candidate: Candidate, kind: NDArray[np.bool_], weights: NDArray[np.float64], mine: NDArray[np.bool_]
) -> float:
    """As many images of even weight as tell as much as those of a kind."""
    number, tried = float(kind.sum()), float((kind & ~candidate.at_once & ~candidate.cleared).sum())
    of_images = np.bincount(candidate.images[mine], weights[mine], len(kind))
    if not tried or not of_images.any():
        return number
    return number * min(1.0, float(of_images.sum() ** 2 / (of_images**2).sum()) / tried)
