"""Finding the cheapest plan that meets a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from poolsieve.bundles import Bundle
from poolsieve.bundles.pool_layout import USUAL_IMAGES
from poolsieve.bundles.recordings import Recordings
from poolsieve.planning.candidate import Candidate
from poolsieve.planning.candidates import all_candidates
from poolsieve.planning.outcomes import Outcomes, outcomes
from poolsieve.planning.paired import CONFIDENCE, images_needed
from poolsieve.planning.plans import Plan, Target, individual_reach
from poolsieve.planning.promises import promise
from poolsieve.schemes.cost_model import Price

NEAR_TIE = 0.005
"""Costs that differ by no more are a tie, which the simpler plan wins."""
_HALF_CONFIDENCE = float(ndtr(ndtri(CONFIDENCE) / math.sqrt(2)))
"""On half of the images this gives bounds about as far from the mean as `CONFIDENCE` does on all."""
_EVEN = 0.5
"""Confidence of a bound that is the mean."""
_WORTHWHILE = 0.9
"""What a plan may cost to be named as one that more images would allow."""


@dataclass(frozen=True)
class Choices:
    """What a search found.

    Attributes:
        plans: The best plan of each kind that meets the target, the chosen one first and the others by cost;
            if none meets it, individual testing as near to it as it gets.
        least_sensitivity: What the target asked for, on the recorded images; a plan is chosen only if it
            surely loses no more against individual testing than lies between this and `individual`.
        least_specificity: The same for specificity.
        individual: Individual testing at its usual threshold, to compare with.
        frontier: For each scheme, costs (ascending) and the best sensitivity up to each of them at the least
            specificity, as it looks on the recorded images.
        left_out: What was not tried, and why, for people.
    """

    plans: tuple[Plan, ...]
    least_sensitivity: float
    least_specificity: float
    individual: Plan
    frontier: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    left_out: tuple[str, ...] = ()

    @property
    def best(self) -> Plan:
        """The chosen plan."""
        return self.plans[0]


@dataclass(frozen=True)
class _Seen:
    """A candidate with its outcomes on all recorded images, and on each half of them."""

    candidate: Candidate
    whole: Outcomes
    halves: tuple[Outcomes, Outcomes]

    @property
    def name(self) -> str:
        return self.candidate.scheme.name

    def costs(self, table: Outcomes) -> NDArray[np.float64]:
        """Cost at each bound.  # (bounds,)."""
        return self.candidate.costs(table.reaching, table.pools, table.tested)


@dataclass(frozen=True)
class _Allowed:
    """What may be lost against individual testing.

    Attributes:
        loss: In sensitivity and in specificity, surely.
        least: The least sensitivity and specificity on the recorded images.
    """

    loss: tuple[float, float]
    least: tuple[float, float]


def plan(
    bundle: Bundle,
    prevalence: float,
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
    within: float = 0.01,
    specificity_within: float = 0.0,
    threshold: float | None = None,
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
        specificity_within: How far below it the specificity may lie, if none is given. On the recorded images
            it is no lower in any case.
        threshold: The individual network's score above which an image is flagged; by default the plan's to
            choose.
        price: What the networks' parts cost; by default the bundle's multiply-adds.
        images: The intervals are for what this many other images will show; by default for as many bad and
            clear ones as were recorded. They do not change which scheme is chosen.
    """
    target = Target(sensitivity, specificity, within, threshold, specificity_within)
    sizes = bundle.config.pool_sizes
    if images is not None and images < 1:
        raise ValueError(f"images={images}, but promises are for 1 image or more")
    others = None if images is None else (images * prevalence, images * (1 - prevalence))
    price = price or bundle.config.cost
    gated = bundle.config.merge == "gated"
    return search(bundle.recordings(), prevalence, target, sizes, price, others, gated=gated)


def search(
    recordings: Recordings,
    prevalence: float,
    target: Target,
    pool_sizes: Sequence[int],
    price: Price,
    others: tuple[float, float] | None = None,
    *,
    gated: bool,
) -> Choices:
    """Choose from recordings; see `plan`.

    `others` are the numbers of bad and of clear images that the intervals are for; `gated` tells whether
    features are multiplied by the gate before they are merged.

    A plan is chosen only if the upper bound of its loss against individual testing, on the same images, lies
    within the target, and its specificity there is no lower. What was picked on limited data still does a
    little worse on other images. So plans are also picked on each half of the images and judged by the other
    half; half of what they lose on the way is taken off the promise, as twice the images mislead half as
    much.
    """
    if not 1e-6 <= prevalence <= 0.5:
        raise ValueError(f"prevalence={prevalence}, but plans are made for 0.000001 to 0.5")
    if others is None:
        others = float(recordings.bad.sum()), float((~recordings.bad).sum())
    halves = _halves(recordings.bad)
    candidates, left_out = all_candidates(recordings, prevalence, tuple(pool_sizes), price, gated=gated)
    tried = []
    for candidate in candidates:
        whole, one_half, other_half = (
            outcomes(candidate, recordings, prevalence, target.thresholds, half, target.reference)
            for half in (None, *halves)
        )
        tried.append(_Seen(candidate, whole, (one_half, other_half)))
    allowed = _allowed(target, recordings)

    def made(one: _Seen, place: tuple[int, int], optimism: tuple[float, ...] = (0.0,) * 3) -> Plan:
        threshold = float(target.thresholds[place[1]])
        return promise(one.candidate, one.whole, place, threshold, recordings, prevalence, others, optimism)

    confidence = _confidence(tried, allowed, target)
    plans: list[tuple[Plan, int]] = []
    for one in tried:
        place = _cheapest(one, one.whole, allowed, target, confidence)
        if place is not None:
            optimism = _optimism(one, tried[0], recordings, target, halves)
            plans.append((made(one, place, optimism), one.candidate.complexity))
    if not plans:
        nearest = made(tried[0], _nearest(tried[0].whole, allowed))
        plans = [(replace(nearest, meets_target=False), 0)]
    ranked = _ranked(plans)
    if ranked[0].scheme == "individual":
        note = _missing_images(tried, allowed, int(recordings.bad.sum()))
        ranked[0] = replace(ranked[0], note=note)
    chunk = chunk_for(pool_sizes)
    ranked = [replace(one, parameters={**one.parameters, "chunk": chunk}) for one in ranked]
    reference = made(tried[0], (0, int(np.flatnonzero(target.thresholds == target.reference)[0])))
    frontier = _frontier(tried, allowed.least[1])
    return Choices(tuple(ranked), *allowed.least, reference, frontier, tuple(left_out))


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


def _allowed(target: Target, recordings: Recordings, among: NDArray[np.bool_] | None = None) -> _Allowed:
    least = target.least(recordings, among)
    reached = individual_reach(recordings, target.reference, among)
    surely = target.specificity_within if target.specificity is None else reached[1] - least[1]
    return _Allowed((reached[0] - least[0], surely), least)


def _confidence(tried: Sequence[_Seen], allowed: _Allowed, target: Target) -> float:
    """How sure each bound must be, so that `CONFIDENCE` holds for whichever candidate turns out cheapest.

    The more candidates compete, the likelier it is that the cheapest is so by luck; the risk is shared out
    among them (Bonferroni). A candidate competes if it would be cheaper than the chosen one, were its loss no
    more than the mean that was seen.
    """
    rivals = tried[1:]
    hopes = np.array([_cost_at(one, allowed, target, _EVEN) for one in rivals])
    for number in range(1, len(rivals) + 1):
        confidence = 1 - (1 - CONFIDENCE) / number
        sure = min(_cost_at(one, allowed, target, confidence) for one in rivals)
        if (hopes < min(sure, 1.0)).sum() <= number:
            return confidence
    return CONFIDENCE


def _cost_at(one: _Seen, allowed: _Allowed, target: Target, confidence: float) -> float:
    """Cost of the cheapest place that meets the target so surely; infinite if none does."""
    place = _cheapest(one, one.whole, allowed, target, confidence)
    return math.inf if place is None else float(one.costs(one.whole)[place[0]])


def _ranked(plans: Sequence[tuple[Plan, int]]) -> list[Plan]:
    """The chosen plan first, the others by cost; of those of nearly the same cost the simplest is chosen."""
    by_cost = sorted(plans, key=lambda pair: pair[0].cost.value)
    near = [pair for pair in by_cost if pair[0].cost.value <= by_cost[0][0].cost.value + NEAR_TIE]
    chosen = min(near, key=lambda pair: (pair[1], pair[0].cost.value))
    return [chosen[0], *(pair[0] for pair in by_cost if pair is not chosen)]


def _cheapest(
    one: _Seen,
    table: Outcomes,
    allowed: _Allowed,
    target: Target,
    confidence: float,
) -> tuple[int, int] | None:
    """Row and column of the cheapest place that meets the target; of equal cost the one with most to spare.

    Individual testing is what the others are compared with, so that its own mean must reach the target.
    """
    bad, clear = table.images
    spread = math.sqrt(0.05 / bad), math.sqrt(0.02 / clear)  # to weigh one against the other
    if one.name == "individual":
        spare = table.sensitivity - allowed.least[0], table.specificity - allowed.least[1]
    else:
        bounds = table.loss_bounds(confidence)
        seen = table.specificity - allowed.least[1]
        spare = allowed.loss[0] - bounds[0], np.minimum(allowed.loss[1] - bounds[1], seen)
    least = np.minimum(spare[0] / spread[0], spare[1] / spread[1])
    rows = np.flatnonzero((least >= -1e-9).any(axis=1))
    if not len(rows):
        return None
    row = int(rows[table.tested[rows].argmin()])
    column = int(least[row].argmax())
    usual = int(np.flatnonzero(target.thresholds == target.reference)[0])
    if one.name == "individual" and least[row, usual] >= -1e-9:
        column = usual
    return row, column


def _optimism(
    one: _Seen,
    individual: _Seen,
    recordings: Recordings,
    target: Target,
    halves: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> tuple[float, float, float]:
    """How much too good sensitivity, specificity and cost look for having been picked by."""
    missing = []
    for mine, other in ((0, 1), (1, 0)):
        inside, outside = one.halves[mine], one.halves[other]
        allowed = _allowed(target, recordings, halves[mine])
        at = _cheapest(one, inside, allowed, target, _HALF_CONFIDENCE)
        if at is None:
            continue
        # Bad luck of the individual network is not ours.
        alone, alone_outside = individual.halves[mine], individual.halves[other]
        usual = 0, at[1]
        missing.append(
            (
                (inside.sensitivity[at] - alone.sensitivity[usual])
                - (outside.sensitivity[at] - alone_outside.sensitivity[usual]),
                (inside.specificity[at] - alone.specificity[usual])
                - (outside.specificity[at] - alone_outside.specificity[usual]),
                float((one.costs(outside) - one.costs(inside))[at[0]]),
            )
        )
    if not missing:
        return 0.0, 0.0, 0.0
    values = np.maximum(np.mean(missing, axis=0), 0.0) / 2
    return float(values[0]), float(values[1]), float(values[2])


def _missing_images(tried: Sequence[_Seen], allowed: _Allowed, recorded: int) -> str | None:
    """How many bad images it would take to allow something cheaper than individual testing, for people.

    None if nothing cheaper loses little enough even by the mean.
    """
    found: list[tuple[float, float, str]] = []
    for one in tried[1:]:
        table, bounds = one.whole, one.whole.loss_bounds()
        lost = table.lost - table.gained
        cost = one.costs(table)[:, None]
        possible = (lost < allowed.loss[0]) & (bounds[1] <= allowed.loss[1] + 1e-9)
        possible &= table.specificity >= allowed.least[1] - 1e-9
        possible &= cost <= _WORTHWHILE
        if possible.any():
            row, column = np.unravel_index(np.where(possible, bounds[0], np.inf).argmin(), lost.shape)
            place = int(row), int(column)
            number = images_needed(float(table.lost[place]), float(table.gained[place]), allowed.loss[0])
            # The bound is about images that tell as much as `images` of those that were recorded.
            found.append((number * recorded / table.images[0], float(cost[row, 0]), one.name))
    found = [entry for entry in found if math.isfinite(entry[0]) and entry[0] > recorded]
    if not found:
        return None
    number, share, scheme = min(found)
    return (
        f"every image is tested: {recorded:,} bad validation images are too few to be sure that anything "
        f"cheaper loses at most {allowed.loss[0]:.3g} of sensitivity. About {math.ceil(number):,} might "
        f"show it for {scheme} at {share:.2f} of the cost"
    )


def _frontier(
    tried: Sequence[_Seen], least_specificity: float
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for one in tried:
        best = np.where(one.whole.specificity >= least_specificity, one.whole.sensitivity, -1.0).max(axis=1)
        paid = one.costs(one.whole)
        points = found.setdefault(one.name, [])
        points += [(float(cost), float(share)) for cost, share in zip(paid, best, strict=True) if share >= 0]
    lines = {}
    for scheme, points in found.items():
        if points:
            table = np.array(sorted(points))
            rises = np.maximum.accumulate(table[:, 1])
            kept = np.append(True, rises[1:] > rises[:-1])
            lines[scheme] = (table[kept, 0], rises[kept])
    return lines


def _nearest(table: Outcomes, allowed: _Allowed) -> tuple[int, int]:
    """Individual testing at the threshold that keeps the specificity if any does, and finds most."""
    kept = table.specificity[0] >= allowed.least[1]
    if kept.any():
        return 0, int(np.where(kept, table.sensitivity[0], -1.0).argmax())
    return 0, int(table.specificity[0].argmax())
