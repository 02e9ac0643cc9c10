"""Finding the cheapest plan that meets a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, ndtri

from poolsieve.bundles import Bundle
from poolsieve.planning.outcomes import THRESHOLDS, USUAL_THRESHOLD, Outcomes, outcomes
from poolsieve.planning.plans import Estimate, Plan, Target
from poolsieve.planning.trial import Trial
from poolsieve.planning.trials import all_trials
from poolsieve.recordings import Recordings
from poolsieve.recordings.layout import USUAL_IMAGES
from poolsieve.schemes.cost import Price

NEAR_TIE = 0.005
"""Costs that differ by no more are a tie, which the simpler plan wins."""
_Z = float(ndtri(0.975))
_MANY = 10_000
"""So many other images that their luck hardly matters."""


@dataclass(frozen=True)
class Choices:
    """What a search found.

    Attributes:
        plans: The best plan of each kind that meets the target, the chosen one first and the others by cost;
            if none meets it, individual testing as near to it as it gets.
        least_sensitivity: What the target asked for, on the recorded images.
        least_specificity: The same for specificity.
        individual: Individual testing at its usual threshold, to compare with.
        frontier: For each scheme, costs (ascending) and the best sensitivity up to each of them at the least
            specificity, as it looks on the recorded images.
    """

    plans: tuple[Plan, ...]
    least_sensitivity: float
    least_specificity: float
    individual: Plan
    frontier: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]

    @property
    def best(self) -> Plan:
        """The chosen plan."""
        return self.plans[0]


@dataclass(frozen=True)
class _Tried:
    """A trial with its outcomes on all recorded images, and on each half of them."""

    trial: Trial
    whole: Outcomes
    halves: tuple[Outcomes, Outcomes]


@dataclass(frozen=True)
class _Pick:
    """A place in a trial's tables."""

    tried: _Tried
    bound: int
    threshold: int


def plan(
    bundle: Bundle,
    prevalence: float,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
    within: float = 0.01,
    price: Price | None = None,
    images: int | None = None,
) -> Choices:
    """Choose the cheapest scheme that meets a target, from the bundle's recordings.

    Args:
        bundle: A bundle with recordings.
        prevalence: Expected share of bad images.
        sensitivity: Least sensitivity; by default that of individual testing less `within`.
        specificity: Least specificity; by default that of individual testing.
        within: How far below individual testing the sensitivity may lie.
        price: What the networks' parts cost; by default the bundle's multiply-adds.
        images: The intervals are for what this many other images will show; by default for as many bad and
            clear ones as were recorded. They do not change which scheme is chosen.
    """
    target, sizes = Target(sensitivity, specificity, within), bundle.config.pool_sizes
    if images is not None and images < 1:
        raise ValueError(f"images={images}, but promises are for 1 image or more")
    others = None if images is None else (images * prevalence, images * (1 - prevalence))
    price = price or bundle.config.cost
    return search(bundle.recordings(), prevalence, target, sizes, price, others)


def search(
    recordings: Recordings,
    prevalence: float,
    target: Target,
    pool_sizes: Sequence[int],
    price: Price,
    others: tuple[float, float] | None = None,
) -> Choices:
    """Choose from recordings; see `plan`.

    `others` are the numbers of bad and of clear images that the intervals are for.

    Picking bounds by limited data flatters them. So they are also picked on each half of the images and
    judged by the other half; by half of what they lose on the way the target is raised here, and the promise
    lowered, as twice the images flatter half as much.
    """
    if not 1e-6 <= prevalence <= 0.5:
        raise ValueError(f"prevalence={prevalence}, but plans are made for 0.000001 to 0.5")
    halves = _halves(recordings.bad)
    tried = []
    for trial in all_trials(recordings, prevalence, tuple(pool_sizes)):
        one_half, other_half = (outcomes(trial, recordings, prevalence, among=half) for half in halves)
        tried.append(_Tried(trial, outcomes(trial, recordings, prevalence), (one_half, other_half)))
    least = target.least(recordings)
    individual = _Pick(tried[0], 0, int(np.flatnonzero(THRESHOLDS == USUAL_THRESHOLD)[0]))
    if others is None:
        others = float(recordings.bad.sum()), float((~recordings.bad).sum())
    picks, made = [], []
    for one in tried:
        flattery = _flattery(one, tried[0], recordings, target, halves, price)
        pick = _cheapest(one, least, flattery, recordings)
        if pick is not None:
            picks.append(pick)
            made.append(_promise(pick, recordings, prevalence, price, others, flattery))
    reference = _promise(individual, recordings, prevalence, price, others, (0.0,) * 3)
    chunk = chunk_for(pool_sizes)
    if not made:
        nearest = _nearest(tried[0], least)
        fallback = _promise(nearest, recordings, prevalence, price, others, (0.0,) * 3)
        made, picks = [replace(fallback, meets_target=False)], [nearest]
    order = sorted(range(len(made)), key=lambda k: made[k].cost.value)
    cheapest = made[order[0]].cost.value
    ties = [k for k in order if made[k].cost.value <= cheapest + NEAR_TIE]
    first = min(ties, key=lambda k: (picks[k].tried.trial.complexity, made[k].cost.value))
    ranked = [first, *(k for k in order if k != first)]
    plans = tuple(replace(made[k], parameters={**made[k].parameters, "chunk": chunk}) for k in ranked)
    return Choices(plans, *least, reference, _frontier(tried, least[1], price))


def chunk_for(pool_sizes: Sequence[int]) -> int:
    """Images of a chunk that every pool size divides, so that plans can change from chunk to chunk."""
    together = math.lcm(*pool_sizes)
    return together * -(-USUAL_IMAGES // together)


def _halves(bad: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Every other bad and every other clear image."""
    first = np.zeros(len(bad), dtype=bool)
    for kind in (np.flatnonzero(bad), np.flatnonzero(~bad)):
        first[kind[::2]] = True
    return first, ~first


def _costs(trial: Trial, backs: NDArray[np.float64], price: Price) -> NDArray[np.float64]:
    whole = price.front + price.back + price.final
    looks = price.glance if trial.glance else price.front + (price.gate if trial.head else 0)
    result: NDArray[np.float64] = looks / whole + backs * _test_cost(trial, price)
    return result


def _test_cost(trial: Trial, price: Price) -> float:
    """Cost of one run of the back; after a glance alone the front comes with it."""
    back = price.back + price.final
    return 1.0 if trial.glance else back / (price.front + back)


def _cheapest(
    one: _Tried,
    least: tuple[float, float],
    margin: tuple[float, ...],
    recordings: Recordings,
    half: int | None = None,
) -> _Pick | None:
    """The cheapest place that meets the target by a margin; of equal cost the one with most to spare."""
    bad = recordings.bad
    spread = math.sqrt(0.05 / bad.sum()), math.sqrt(0.02 / (~bad).sum())  # to weigh one against the other
    table = one.whole if half is None else one.halves[half]
    spare = np.minimum(
        (table.sensitivity - min(least[0] + margin[0], max(least[0], 1.0))) / spread[0],
        (table.specificity - min(least[1] + margin[1], max(least[1], 1.0))) / spread[1],
    )
    rows = np.flatnonzero((spare >= -1e-9).any(axis=1))
    if not len(rows):
        return None
    row = int(rows[table.backs[rows].argmin()])
    column = int(spare[row].argmax())
    usual = int(np.flatnonzero(THRESHOLDS == USUAL_THRESHOLD)[0])
    if one.trial.scheme == "individual" and spare[row, usual] >= -1e-9:
        column = usual
    return _Pick(one, row, column)


def _flattery(
    one: _Tried,
    individual: _Tried,
    recordings: Recordings,
    target: Target,
    halves: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    price: Price,
) -> tuple[float, float, float]:
    """How much too good sensitivity, specificity and cost look for having been picked by."""
    lost = []
    for mine, other in ((0, 1), (1, 0)):
        pick = _cheapest(one, target.least(recordings, halves[mine]), (0.0, 0.0), recordings, mine)
        if pick is None:
            continue
        inside, outside = (pick.tried.halves[k] for k in (mine, other))
        plain = [
            individual.halves[k] for k in (mine, other)
        ]  # bad luck of the individual network is not ours
        at = pick.bound, pick.threshold
        usual = 0, pick.threshold
        lost.append(
            (
                (inside.sensitivity[at] - plain[0].sensitivity[usual])
                - (outside.sensitivity[at] - plain[1].sensitivity[usual]),
                (inside.specificity[at] - plain[0].specificity[usual])
                - (outside.specificity[at] - plain[1].specificity[usual]),
                float(
                    _costs(pick.tried.trial, outside.backs, price)[pick.bound]
                    - _costs(pick.tried.trial, inside.backs, price)[pick.bound]
                ),
            )
        )
    if not lost:
        return 0.0, 0.0, 0.0
    values = np.maximum(np.mean(lost, axis=0), 0.0) / 2
    return float(values[0]), float(values[1]), float(values[2])


def _frontier(
    tried: Sequence[_Tried], least_specificity: float, price: Price
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for one in tried:
        best = np.where(one.whole.specificity >= least_specificity, one.whole.sensitivity, -1.0).max(axis=1)
        costs = _costs(one.trial, one.whole.backs, price)
        points = found.setdefault(one.trial.scheme, [])
        points += [(float(cost), float(share)) for cost, share in zip(costs, best, strict=True) if share >= 0]
    lines = {}
    for scheme, points in found.items():
        if points:
            table = np.array(sorted(points))
            rises = np.maximum.accumulate(table[:, 1])
            kept = np.append(True, rises[1:] > rises[:-1])
            lines[scheme] = (table[kept, 0], rises[kept])
    return lines


def _nearest(tried: _Tried, least: tuple[float, float]) -> _Pick:
    """Individual testing at the threshold that keeps the specificity if any does, and finds most."""
    table = tried.whole
    kept = table.specificity[0] >= least[1]
    if kept.any():
        return _Pick(tried, 0, int(np.where(kept, table.sensitivity[0], -1.0).argmax()))
    return _Pick(tried, 0, int(table.specificity[0].argmax()))


def _promise(
    pick: _Pick,
    recordings: Recordings,
    prevalence: float,
    price: Price,
    others: tuple[float, float],
    flattery: tuple[float, ...],
) -> Plan:
    """The plan of a pick, with intervals for other images from how much single images matter."""
    trial = pick.tried.trial
    threshold, bound = float(THRESHOLDS[pick.threshold]), float(trial.bounds[pick.bound])
    bad = recordings.bad
    weights = trial.weights(bad, np.ones(len(bad), dtype=bool))
    above = trial.values >= bound
    exceeds = recordings.scores > threshold
    shares, tests, spreads = [], [], []
    for kind in (bad, ~bad):
        mine, number = kind[trial.images], int(kind.sum())
        asked = _per_image(trial, mine & above, weights, len(bad))[kind] * number + trial.at_once[kind]
        if trial.tests:
            below = _per_image(trial, mine & ~above, weights, len(bad))[kind] * number
            flagged = (exceeds & ~trial.cleared)[kind] * (1 - below)
            tests.append(asked)
        else:
            flagged = asked
            tests.append(np.zeros(number))
        shares.append(flagged)
        spreads.append(float(tests[-1].var(ddof=1)) / number if number > 1 else 0.0)
    backs = pick.tried.whole.backs[pick.bound]
    cost = float(_costs(trial, np.array([backs]), price)[0]) + flattery[2]
    # A promise is about other images: their luck adds to ours, the more the fewer they are.
    luck = [1 + len(flagged) / number for flagged, number in zip(shares, others, strict=True)]
    variance = prevalence**2 * spreads[0] * luck[0] + (1 - prevalence) ** 2 * spreads[1] * luck[1]
    half = _Z * math.sqrt(variance) * _test_cost(trial, price)
    parameters = dict(trial.parameters)
    if trial.tests:
        parameters["threshold"] = threshold
    parameters |= trial.settings(bound)
    return Plan(
        trial.scheme,
        parameters,
        prevalence,
        _share(shares[0], flattery[0], others[0]),
        _share(1 - shares[1], flattery[1], others[1]),
        Estimate(cost, cost - half, cost + half),
    )


def _per_image(
    trial: Trial, tries: NDArray[np.bool_], weights: NDArray[np.float64], images: int
) -> NDArray[np.float64]:
    """Weight of the tries of each image.  # (images,)."""
    return np.bincount(trial.images[tries], weights[tries], images).astype(np.float64)


def _share(of_images: NDArray[np.float64], lowered: float, others: float) -> Estimate:
    """Mean over images, lowered, with an interval for the share among other images.

    What the recorded images tell is Jeffreys' beta distribution, for as many independent images as tell as
    much; the number among the others is then beta-binomial.
    """
    number = len(of_images)
    mean = float(np.clip(of_images.mean(), 0, 1))
    between = float(of_images.var(ddof=1)) / number if number > 1 else 0.0
    spread = mean * (1 - mean)
    effective = min(number, spread / between) if spread > 0 and between > 0 else number
    low, high = predicted_share(mean * effective, effective, others)
    return Estimate(max(mean - lowered, 0.0), max(low - lowered, 0.0), high)


def predicted_share(good: float, seen: float, others: float) -> tuple[float, float]:
    """Where the share of good ones among others lies in 95 of 100 cases.

    Args:
        good: Good ones among those seen; need not be whole, like the numbers below.
        seen: Those seen.
        others: Those to come; more than `_MANY` are taken for as many.
    """
    n = max(1, round(min(others, _MANY)))
    k = np.arange(n + 1)
    a, b = good + 0.5, seen - good + 0.5
    log_chance = betaln(a + k, b + n - k) - betaln(k + 1.0, n - k + 1.0)
    chance = np.exp(log_chance - log_chance.max())
    below = np.cumsum(chance) / chance.sum()
    low, high = np.searchsorted(below, (0.025, 0.975))
    return float(low) / n, float(high) / n
