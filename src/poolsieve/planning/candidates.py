"""All settings of all schemes that are worth considering, as their stages see recorded images and pools."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb, expit

from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.planning.candidate import Candidate
from poolsieve.planning.head_comparison import beats_head
from poolsieve.planning.replay import recorded_readings, replayed_images
from poolsieve.schemes import Chunk, Scheme, Stage, Undecided
from poolsieve.schemes.cost_model import Price, Work
from poolsieve.schemes.look import EARLY, Look
from poolsieve.schemes.pool_stage import PoolStage, RecordedPools
from poolsieve.schemes.scheme import SCHEMES, parameter_names, with_parameters

MOST_MATES = 5
"""Images with so many bad pool-mates or more are taken together."""


def all_candidates(
    recordings: Recordings, prevalence: float, pool_sizes: tuple[int, ...], price: Price, *, gated: bool
) -> tuple[list[Candidate], list[str]]:
    """Every way to decide that is worth considering at a prevalence, and what is not, for people.

    Those are the schemes of the table, individual testing first, with all settings that their stages offer.
    Pools that tell no more than the head alone are no candidates: by luck they might look cheaper.
    """
    pools = tuple(one for one in recordings.pools if one.pool_size in pool_sizes)
    shared = _Shared(recordings, prevalence, pools, price, gated)
    found: list[Candidate] = []
    left_out: list[str] = []
    for name in sorted(SCHEMES, key=lambda name: name != "individual"):
        try:
            found += _ListedScheme(shared, name).candidates()
        except _NotPlannedError as error:
            left_out.append(f"{name} was not tried: {error}")
    rival = "chance" if recordings.heads is None else "the head alone"
    left_out += [
        f"pools of {size} were not tried: they tell bad images from clear ones no better than {rival}"
        for size, tells in shared.tells.items()
        if not tells
    ]
    return found, left_out


class _NotPlannedError(ValueError):
    """Recordings do not tell what a list of stages comes to."""


@dataclass
class _Shared:
    """What candidates of all schemes are made of.

    Attributes:
        recordings: What the networks said.
        prevalence: Share of bad images.
        pools: Recordings of pools that the bundle has networks for.
        price: What the networks' parts cost.
        gated: Whether features are multiplied by the gate before they are merged.
        images: All recorded images.
        known: What was computed already: several stages see the same pools.
        tells: Whether pools of a size tell more than the head, as far as was seen.
    """

    recordings: Recordings
    prevalence: float
    pools: tuple[PoolRecording, ...]
    price: Price
    gated: bool
    images: Chunk = field(init=False)
    known: dict[Hashable, Any] = field(default_factory=dict)
    tells: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.images = replayed_images(self.recordings, self.price, gated=self.gated)

    def values(
        self, stage: PoolStage, recording: PoolRecording, log_odds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """What a stage with pools decides by, on recorded readings.  # (chunks, n).

        Args:
            stage: The stage.
            recording: The readings.
            log_odds: What is known of all images before.  # (images,)
        """
        key = stage, id(recording), log_odds.tobytes()
        if key not in self.known:
            classes, priors = stage.classes, expit(log_odds[recording.images])
            pooling = recording.layout.first(classes)
            self.known[key] = stage.values(recorded_readings(recording, classes), pooling, priors)
        return self.known[key]

    def beats_head(self, candidate: Candidate, stage: PoolStage, offer: RecordedPools) -> bool:
        """Whether the pools of a candidate tell more than the head does."""
        key = stage, *map(id, offer.recordings), candidate.at_once.tobytes(), candidate.cleared.tobytes()
        if key not in self.known:
            self.known[key] = beats_head(candidate, self.recordings)
        return self.known[key]


class _ListedScheme:
    """Makes candidates of a scheme of the table: looks, then at most one stage with pools, and a test."""

    def __init__(self, shared: _Shared, name: str) -> None:
        self._shared, self._name, self._stages = shared, name, SCHEMES[name]
        self._names = {place: name for name, place in parameter_names(self._stages).items()}

    def candidates(self) -> Iterator[Candidate]:
        """All of them; none if the recordings lack a network that the scheme needs."""
        for stage in self._stages:
            if stage.unplanned is not None:
                raise _NotPlannedError(f"{stage.name} {stage.unplanned}")
        if any(stage.bound and not stage.known(self._shared.images.likelihoods) for stage in self._stages):
            return
        if not self._dearer_later():
            return
        pools = [place for place, stage in enumerate(self._stages) if stage.pools]
        if not pools:
            yield from self._without_pools()
        elif len(pools) > 1 or pools[0] < len(self._stages) - 2:
            raise _NotPlannedError("nothing was recorded of what comes after pools, but tests")
        else:
            yield from self._with_pools(pools[0])

    def _dearer_later(self) -> bool:
        """Whether each look that clears images costs more than the one before it; else it should be first."""
        shared, costs = self._shared, []
        work = Work(shared.price, images=1)
        for stage in self._stages:
            before = work.share
            stage.reckon(work, 1.0, gated=shared.gated)
            if isinstance(stage, Look) and stage.bounded:
                costs.append(work.share - before)
        return costs == sorted(costs)

    def _named(self, place: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self._names[place, name]: value for name, value in values.items()}

    def _names_at(self, place: int) -> dict[str, str]:
        return {name: named for (at, name), named in self._names.items() if at == place}

    def _settings(self, places: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Values of parameters of some stages that are worth searching, before the bound that is left open.

        One bound for each look: the risk that a plan breaks its promise is shared out among all that compete.
        """
        grid: dict[str, Any] = {}
        for place in places:
            stage = self._stages[place]
            early = {"clear_below": (EARLY * self._shared.prevalence,)}
            grid |= self._named(place, early if isinstance(stage, Look) and stage.bounded else stage.grid())
        for values in itertools.product(*grid.values()):
            yield dict(zip(grid, values, strict=True))

    def _walk(self, looks: Sequence[Stage]) -> tuple[Undecided, list[NDArray[np.bool_]]]:
        """What is known of images after some looks; which of them reach each look, and what comes then."""
        images = self._shared.images
        undecided = Undecided(images, self._shared.prevalence, np.random.default_rng(0), len(images))
        reached = []
        for look in looks:
            reached.append(undecided.open.copy())
            look.look(undecided)
        reached.append(undecided.open.copy())
        asked = reached[-1]
        for place in reversed(range(len(looks))):  # looks without bounds wait until somebody asks
            if looks[place].bound is None:
                reached[place] = asked & looks[place].known(images.likelihoods)
            else:
                asked = reached[place]
        return undecided, reached

    def _without_pools(self) -> Iterator[Candidate]:
        """Looks clear images one after the other, the last one by the bound that is left to choose."""
        shared, bad = self._shared, self._shared.recordings.bad
        bounded = [place for place, stage in enumerate(self._stages) if stage.bound]
        last = bounded[-1] if bounded else 0
        for given in self._settings(range(last)):
            stages = with_parameters(self._stages, given)
            undecided, reached = self._walk(stages[:last])
            images, look = np.flatnonzero(undecided.open), stages[last]
            if len(np.unique(bad[images])) < 2:
                continue  # nothing is left to choose
            values, bounds = np.zeros(len(images)), np.zeros(1)
            if isinstance(look, Look) and bounded:
                look.see(undecided)
                values = undecided.log_odds()[images]
                bounds = look.bounds(values[~bad[images]])
            reached = reached if bounded else []
            never = np.zeros(len(bad), dtype=bool)  # nobody asks what looks after that would see
            yield Candidate(
                scheme=Scheme(stages, self._name, prevalence=shared.prevalence),
                price=shared.price,
                gated=shared.gated,
                parameters={"prevalence": shared.prevalence, **given} if bounded else {},
                stage=look if bounded else None,
                names=self._names_at(last),
                images=images,
                values=values,
                groups=np.zeros(len(images), dtype=np.intp),
                shares=np.ones((1, 1)),
                at_once=np.zeros(len(bad), dtype=bool),
                cleared=~undecided.open,
                pools=np.zeros(len(bad)),
                bounds=bounds,
                reached=(*reached, *[never] * (len(stages) - 1 - len(reached))),
                tiers=np.zeros(len(bad), dtype=np.intp),
            )

    def _with_pools(self, place: int) -> Iterator[Candidate]:
        """Looks leave images to pools, whose bound is left to choose."""
        shared, pools = self._shared, self._stages[place]
        assert isinstance(pools, PoolStage)
        for offer in pools.offers(shared.pools, shared.prevalence):
            for looks in self._leaving(place, offer):
                given = self._named(place, offer.parameters) | looks | self._named(place, offer.more)
                stages = with_parameters(self._stages, given)
                stage = stages[place]
                assert isinstance(stage, PoolStage)
                teller = self._pooled(stages, place, stage.teller, offer, given)
                tells = teller is not None and shared.beats_head(teller, stage.teller, offer)
                if len(offer.recordings) == 1:
                    shared.tells[stage.pool_size] = shared.tells.get(stage.pool_size, False) or tells
                for variant in stage.variants(offer.recordings) if tells else ():
                    made = (
                        teller
                        if variant == stage.teller
                        else self._pooled(stages, place, variant, offer, given)
                    )
                    assert made is not None
                    yield made

    def _leaving(self, place: int, offer: RecordedPools) -> Iterator[dict[str, Any]]:
        """Settings of looks that leave to pools the images that were recorded in them."""
        looks = range(place)
        if offer.everyone:
            yield from self._settings(looks)
            return
        for one in looks:
            bounds = self._stages[one].leaving(offer.band, self._shared.prevalence)
            if bounds is not None:
                for given in self._settings([other for other in looks if other != one]):
                    yield given | self._named(one, bounds)

    def _pooled(
        self,
        stages: tuple[Stage, ...],
        place: int,
        stage: PoolStage,
        offer: RecordedPools,
        given: dict[str, Any],
    ) -> Candidate | None:
        """The candidate of a stage with pools; None if no images are left to them."""
        shared, bad, prevalence = self._shared, self._shared.recordings.bad, self._shared.prevalence
        undecided, reached = self._walk(stages[:place])
        log_odds = undecided.log_odds()
        pooled = undecided.open & ~undecided.aside
        parts, shares = [], []
        tiers, taking_part = np.zeros(len(bad), dtype=np.intp), np.zeros(len(bad))
        for tier, (inside, size) in enumerate(stage.groups(undecided, pooled)):
            recording = next(one for one in offer.recordings if one.pool_size == size)
            kept = inside[recording.images]
            values = stage.scaled(shared.values(stage, recording, log_odds))
            mates = _bad_mates(bad[recording.images], recording, stage.classes)
            parts.append([array[kept] for array in (recording.images, values, mates)])
            left_bad, left_clear = prevalence * inside[bad].mean(), (1 - prevalence) * inside[~bad].mean()
            share = left_bad / (left_bad + left_clear) if inside.any() else 0.0
            shares.append(_mate_shares(stage.classes * (size - 1), min(float(share), 1 - 1e-9)))
            tiers[inside], taking_part[inside] = tier, stage.classes / size
        images, values, groups = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if len(np.unique(bad[images])) < 2:
            return None
        own = stage if stage.name == stages[place].name else stages[place]
        return Candidate(
            scheme=Scheme((*stages[:place], own, *stages[place + 1 :]), self._name, prevalence=prevalence),
            price=shared.price,
            gated=shared.gated,
            parameters={"prevalence": prevalence, **given},
            stage=stage,
            names=self._names_at(place),
            images=images.astype(np.intp),
            values=values.astype(np.float64),
            groups=groups,
            shares=np.stack(shares),
            at_once=undecided.open & undecided.aside,
            cleared=~undecided.open,
            pools=taking_part,
            bounds=self._fertile(stage, stages[:place], stage.bounds(values[~bad[images]])),
            reached=tuple(reached),
            tiers=tiers,
        )

    def _fertile(
        self, stage: PoolStage, before: Sequence[Stage], bounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Bounds without those that are too high to find anything."""
        while len(bounds) and replace(stage, **stage.at(bounds[-1])).futile(before, self._shared.prevalence):
            bounds = bounds[:-1]
        return bounds


def _bad_mates(bad: NDArray[np.bool_], recording: PoolRecording, classes: int) -> NDArray[np.intp]:
    """How many bad images each image shares its pools with, at most `MOST_MATES`.  # (chunks, n)."""
    pooling = recording.layout.first(classes)
    counts = pooling.counts(bad)  # (chunks, m)
    mates = counts[:, pooling.pools_of].sum(axis=2) - classes * bad
    return np.minimum(mates, MOST_MATES)


def _mate_shares(mates: int, prevalence: float) -> NDArray[np.float64]:
    """P(so many of the mates are bad), the last entry for all from there on.  # (MOST_MATES + 1,)."""
    number = np.arange(MOST_MATES)
    exact = comb(mates, number) * prevalence**number * (1 - prevalence) ** (mates - number)
    return np.append(exact, max(1 - exact.sum(), 0.0))
