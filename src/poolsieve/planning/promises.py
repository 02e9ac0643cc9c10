"""What a candidate is expected to do on other images, with intervals from how much single images matter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import Recordings
from poolsieve.planning.candidate import Candidate
from poolsieve.planning.outcomes import Outcomes
from poolsieve.planning.paired import loss_bound
from poolsieve.planning.plans import Plan
from poolsieve.statistics import Z95, Estimate, predicted_share


def promise(
    candidate: Candidate,
    table: Outcomes,
    place: tuple[int, int],
    threshold: float,
    recordings: Recordings,
    prevalence: float,
    others: tuple[float, float],
    optimism: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> Plan:
    """The plan of a candidate at one bound and threshold.

    Args:
        candidate: The way to decide.
        table: What it comes to on the recorded images.
        place: Row and column of the table.
        threshold: The individual threshold of that column.
        recordings: The images.
        prevalence: Share of bad images.
        others: Bad and clear images that the intervals are for.
        optimism: By how much sensitivity, specificity and cost look too good for having been picked by.
    """
    bound = float(candidate.bounds[place[0]])
    bad = recordings.bad
    weights = candidate.weights(bad, np.ones(len(bad), dtype=bool))
    above = candidate.values >= bound
    exceeds = recordings.scores > threshold
    shares, spreads = [], []
    for kind in (bad, ~bad):
        mine, number = kind[candidate.images], int(kind.sum())
        asked = (
            _per_image(candidate, mine & above, weights, len(bad))[kind] * number + candidate.at_once[kind]
        )
        if candidate.tests:
            below = _per_image(candidate, mine & ~above, weights, len(bad))[kind] * number
            own = (kind & exceeds & ~candidate.cleared & ~candidate.at_once).sum() / number
            weight = weights[mine & exceeds[candidate.images]].sum()  # not quite what they are
            shares.append(
                (exceeds & ~candidate.cleared)[kind] * (1 - below * (own / weight if weight else 1))
            )
            tests = asked
        else:
            shares.append(asked)
            tests = np.zeros(number)
        spreads.append(float(tests.var(ddof=1)) / number if number > 1 else 0.0)
    rest, each = candidate.test_cost(table.reaching, table.pools)
    cost = rest + float(table.tested[place[0]]) * each + optimism[2]
    # A promise is about other images: their luck adds to ours, the more the fewer they are.
    luck = [1 + len(flagged) / number for flagged, number in zip(shares, others, strict=True)]
    variance = prevalence**2 * spreads[0] * luck[0] + (1 - prevalence) ** 2 * spreads[1] * luck[1]
    half = Z95 * math.sqrt(variance) * each
    parameters = dict(candidate.parameters)
    if candidate.tests:
        parameters["threshold"] = threshold
    parameters |= candidate.settings(bound)
    return Plan(
        candidate.scheme.name,
        parameters,
        prevalence,
        _share(shares[0], optimism[0], others[0]),
        _share(1 - shares[1], optimism[1], others[1]),
        Estimate(cost, cost - half, cost + half),
        _loss(table, place),
    )


def _per_image(
    candidate: Candidate, samples: NDArray[np.bool_], weights: NDArray[np.float64], images: int
) -> NDArray[np.float64]:
    """Weight of the samples of each image.  # (images,)."""
    return np.bincount(candidate.images[samples], weights[samples], images).astype(np.float64)


def _loss(table: Outcomes, place: tuple[int, int]) -> Estimate:
    """Sensitivity lost against individual testing on the same images, with the bounds of one side each."""
    lost, gained = float(table.lost[place]), float(table.gained[place])
    low = -float(loss_bound(gained, lost, table.images[0])) if lost else -gained
    return Estimate(lost - gained, low, float(table.loss_bounds()[0][place]))


def _share(of_images: NDArray[np.float64], lowered: float, others: float) -> Estimate:
    """Mean over images, lowered, with an interval for the share among other images.

    What the recorded images tell is what as many independent images would that tell as much.
    """
    number = len(of_images)
    mean = float(np.clip(of_images.mean(), 0, 1))
    between = float(of_images.var(ddof=1)) / number if number > 1 else 0.0
    spread = mean * (1 - mean)
    effective = min(number, spread / between) if spread > 0 and between > 0 else number
    low, high = predicted_share(mean * effective, effective, others)
    return Estimate(max(mean - lowered, 0.0), max(low - lowered, 0.0), high)
