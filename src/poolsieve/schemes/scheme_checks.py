"""A conformance suite that any scheme can run, whatever stages it is made of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import Readings
from poolsieve.designs import Pooling
from poolsieve.multiply_adds import MultiplyAdds
from poolsieve.network_forms import Merge
from poolsieve.schemes.cost_model import POOLS, CostMeter, Work, list_parts
from poolsieve.schemes.individual import Test
from poolsieve.schemes.likelihood_model import LikelihoodModel
from poolsieve.schemes.planted import (
    COST,
    JOINED_COST,
    PlantedNetworks,
    is_bad,
    planted_calibration,
    planted_config,
    planted_pixels,
)
from poolsieve.schemes.runner import Chunk, Images
from poolsieve.schemes.scheme import UNNAMED, Scheme
from poolsieve.schemes.stages import BY_INDIVIDUAL, Decision, Undecided

MERGES: tuple[Merge, ...] = ("gated", "max")
PRICES = {
    "glance": ("glance",),
    "front": ("front",),
    "head": ("gate",),
    "individual": ("back", "final"),
    "pooled": ("back", "final"),
}
"""What a run of each network is charged as."""


@dataclass(frozen=True)
class Sight:
    """How sure of the truth the networks are; the individual network always is.

    Attributes:
        looks: Logit of head and glance.
        counts: Logit of the right count of a pool over all others.
        doubts: Head and glance cannot tell of every so many-th image; 0 for none.
    """

    looks: float
    counts: float
    doubts: int = 0

    def networks(self) -> PlantedNetworks:
        """Networks that see so."""
        return PlantedNetworks(head_confidence=self.looks, count_confidence=self.counts, doubts=self.doubts)


SURE = Sight(60.0, 60.0)
"""Bounds do not matter: no posterior lies between them."""
BLIND = Sight(0.0, 60.0)
"""Cheap looks say nothing, so that all images reach the pools."""
UNSURE = Sight(1.0, 1.0)
"""Hardly anything is cleared before the last stage."""
DOUBTING = Sight(60.0, 5.0, doubts=3)
"""Some images pass the cheap looks, and some of them the pools."""
SIGHTS = (SURE, BLIND, UNSURE, DOUBTING)


class _WatchedChunk(Chunk):
    """Remembers pools that were dealt over all of its images."""

    def __init__(self, *given: Any, gated: bool) -> None:
        super().__init__(*given, gated=gated)
        self.dealt_some, self.pools_of_all = False, list[Pooling]()

    def arrange_some(self, design: Pooling, images: Images, rng: np.random.Generator) -> Pooling:
        self.dealt_some = True
        return super().arrange_some(design, images, rng)

    def read_pools(self, pooling: Pooling, images: Images | None = None) -> Readings:
        if not self.dealt_some and (pooling.image_weights > 0).all():
            self.pools_of_all.append(pooling)
        return super().read_pools(pooling, images)


@dataclass(frozen=True)
class _Case:
    """A chunk of images, the networks that see it, and who is decided about.

    Attributes:
        name: For complaints.
        bad: The truth of all places of the chunk.  # (size,)
        sight: How sure the networks are.
        merge: How the bundle merges.
        price: What its networks' parts cost.
        lost: Places of images that could not be read.
    """

    name: str
    bad: NDArray[np.bool_]
    sight: Sight = SURE
    merge: Merge = "gated"
    price: MultiplyAdds = COST
    lost: tuple[int, ...] = ()

    @property
    def places(self) -> Images:
        return np.setdiff1d(np.arange(len(self.bad)), self.lost)

    def chunk(self, scheme: Scheme) -> _WatchedChunk:
        places = self.places
        return _WatchedChunk(
            self.sight.networks(),
            LikelihoodModel(planted_calibration(_pool_sizes(scheme))),
            CostMeter(self.price),
            planted_pixels(self.bad[places], places),
            places,
            len(self.bad),
            gated=self.merge == "gated",
        )


def check_scheme(scheme: Scheme) -> None:
    """Check that a scheme keeps the contract that the rest of poolsieve relies on, with all its stages.

    It decides about chunks of planted images (see `PlantedNetworks`) with networks that are sure of the truth
    or doubt it, for pools of 4, of 8 and of the `sizes` of its stages. Checked is that every readable image
    is decided about by one of the stages, with a finite score; that a seed gives the same decision again;
    that an image that cannot be read changes no other image's pools; chunks down to one image; that nothing
    given is changed; that the meter counts what the networks were asked for, and `Scheme.work` reckons the
    same; that graphs are among the bundle's; that it can be written down; and that networks that are sure
    find the bad images and no others.

    Raises:
        AssertionError: The contract is broken; the message says how.
        ValueError: There is no design for chunks of its size.
    """
    for merge in MERGES:
        _check_graphs(scheme, merge)
    sizes = _pool_sizes(scheme)
    scheme.prepare(planted_config(sizes, "gated"), LikelihoodModel(planted_calibration(sizes)))
    _check_written_form(scheme)
    size = scheme.chunk_size
    for merge in MERGES:
        for sight in SIGHTS:
            for bad in (0, 1, 3):
                for price in (COST, JOINED_COST):
                    case = _Case(f"a chunk of {size} images", _truth(bad, size), sight, merge, price)
                    _check_decision(scheme, case)
                    _check_work(scheme, case)
    for short in sorted({1, 2, 3, 7, size // 2, size - 1} & set(range(1, size))):
        for sight in SIGHTS:
            _check_decision(scheme, _Case(f"a chunk of {short} images", _truth(1, short), sight))
    all_but_one = tuple(range(1, size))
    _check_decision(scheme, _Case("a chunk with one readable image", _truth(1, size), lost=all_but_one))
    _check_repetition(scheme)
    _check_damage(scheme)


def _truth(bad: int, size: int) -> NDArray[np.bool_]:
    truth = np.zeros(size, dtype=bool)
    truth[np.random.default_rng(bad).permutation(size)[:bad]] = True
    return truth


def _pool_sizes(scheme: Scheme) -> list[int]:
    return sorted({4, 8}.union(*(getattr(stage, "sizes", ()) for stage in scheme.stages)))


def _decide(scheme: Scheme, chunk: Chunk, case: _Case, seed: int = 0) -> Decision:
    try:
        return scheme.decide(chunk, np.random.default_rng(seed))
    except Exception as error:
        raise AssertionError(
            f"contract broken: {case.name} is decided about; {type(error).__name__}: {error}"
        ) from error


def _check_written_form(scheme: Scheme) -> None:
    try:
        again = Scheme.from_json(json.loads(json.dumps(scheme.to_json())))
    except (ValueError, TypeError) as error:
        raise AssertionError(f"contract broken: a scheme can be written down and read; {error}") from error
    _require(again == replace(scheme, name=UNNAMED), "a scheme that was written down is read as it was")


def _check_graphs(scheme: Scheme, merge: Merge) -> None:
    config = planted_config(_pool_sizes(scheme), merge)
    unknown = sorted(set(scheme.graphs(config)) - set(config.graphs))
    _require(not unknown, f"graphs are among the bundle's, {', '.join(config.graphs)}; not {unknown}")


def _check_decision(scheme: Scheme, case: _Case) -> None:
    chunk, before = case.chunk(scheme), scheme.to_json()
    pixels = chunk.view(chunk.everyone).copy()
    decision = _decide(scheme, chunk, case)
    _check_form(scheme, decision, len(pixels))
    _check_meter(chunk)
    _require(np.array_equal(chunk.view(chunk.everyone), pixels), "images are not changed")
    features = case.sight.networks().front(pixels).features
    _require(
        np.array_equal(chunk.features(chunk.everyone), features),
        "features of a chunk are not changed by stages",
    )
    _require(scheme.to_json() == before, "deciding leaves the parameters alone")
    if case.sight is SURE:
        missed, falsely = is_bad(pixels) & ~decision.flags, decision.flags & ~is_bad(pixels)
        _require(not missed.any(), f"networks that are sure miss no bad image; in {case.name}")
        _require(not falsely.any(), f"networks that are sure flag no clear image; in {case.name}")


def _check_form(scheme: Scheme, decision: Decision, images: int) -> None:
    each = (decision.scores, decision.flags, decision.decided_by)
    _require(all(values.shape == (images,) for values in each), "there is a decision about every image")
    _require(decision.flags.dtype == np.bool_, "flags are bool")
    _require(bool(np.isfinite(decision.scores).all()), "scores are finite")
    names = {"pools" if stage.pools else stage.name for stage in scheme.stages} | {BY_INDIVIDUAL}
    strangers = sorted(set(decision.decided_by.tolist()) - names)
    _require(not strangers, f"decided_by is one of {sorted(names)}; not {strangers}")
    _require(not np.isnan(decision.likelihoods).any(), "likelihoods are numbers")
    _require(
        len(decision.likelihoods) == len(decision.group_sizes), "every group has its likelihoods and size"
    )
    counted = decision.group_weight * float(decision.group_sizes.sum())
    _require(abs(counted - images) < 1e-6 * images, "every image counts once for the prevalence")


def _check_meter(chunk: Chunk) -> None:
    assert isinstance(chunk.networks, PlantedNetworks)
    asked, counted = Counter[str](), Counter[str]()
    for network, rows in chunk.networks.rows.items():
        joined = network == "individual" and chunk.meter.price.individual > 0
        for name in ("individual",) if joined else PRICES[network]:
            asked[name] += rows
    for part in list_parts():
        for name in part.priced(chunk.meter.price):
            counted[name] += round(chunk.meter.runs[part.name])
    _require(chunk.meter.images == len(chunk), "the meter counts every image once")
    _require(
        +counted == +asked, f"the meter counts what was run; counted {_runs(counted)}, run {_runs(asked)}"
    )


def _runs(runs: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in runs.items() if number) or "nothing"


def _check_work(scheme: Scheme, case: _Case) -> None:
    """Stage by stage, as `Scheme.decide` does, to see how many images reach each."""
    chunk = case.chunk(scheme)
    undecided = Undecided(chunk, scheme.prevalence, np.random.default_rng(0), scheme.chunk_size)
    reached = np.zeros(len(scheme.stages))
    waiting: list[Callable[[Undecided], None]] = []
    for number, stage in enumerate(scheme.stages):
        images, pools = int(undecided.open.sum()), chunk.meter.runs[POOLS.name]
        if not images:
            break
        stage.look(undecided)
        put_off = [look for look in undecided.later if look not in waiting]
        for look in put_off:
            waiting.append(_counted(look, reached, number))
            undecided.later[undecided.later.index(look)] = waiting[-1]
        if not put_off and (not stage.pools or chunk.meter.runs[POOLS.name] > pools):
            reached[number] = images
    gated, n = case.merge == "gated", len(chunk)
    work = scheme.work(case.price, list(reached / n), chunk.meter.runs[POOLS.name] / n, gated=gated)
    if scheme.stages[-1].pools:  # what such pools leave is tested
        tested = int((undecided.decision().decided_by == BY_INDIVIDUAL).sum())
        Test().reckon(work, tested / n, gated=gated)
    _require(
        abs(work.share - chunk.meter.share) < 1e-9,
        f"work reckons what the meter counts; reckoned {_shares(work)}, counted {_shares(chunk.meter)}",
    )


def _counted(
    look: Callable[[Undecided], None], reached: NDArray[np.float64], number: int
) -> Callable[[Undecided], None]:
    """A look that was put off, which tells how many images it is taken at."""

    def counted(undecided: Undecided) -> None:
        reached[number] = undecided.open.sum()
        look(undecided)

    return counted


def _shares(work: Work) -> str:
    shown = ", ".join(f"{name} {share:.4g}" for name, share in work.shares().items() if share)
    return shown or "nothing"


def _check_repetition(scheme: Scheme) -> None:
    size = scheme.chunk_size
    for sight in (BLIND, UNSURE):
        one = _Case("a chunk", _truth(2, size), sight)
        other = _Case("another chunk", _truth(5, size), sight)
        first, _, again = (
            _decide(scheme, case.chunk(scheme), case, seed) for case, seed in ((one, 7), (other, 8), (one, 7))
        )
        same = first.pooling == again.pooling and all(
            np.array_equal(getattr(first, name), getattr(again, name))
            for name in ("scores", "flags", "decided_by", "likelihoods")
        )
        _require(same, "the same images and seed give the same decision, whatever was decided before")


def _check_damage(scheme: Scheme) -> None:
    size = scheme.chunk_size
    lost = tuple(np.random.default_rng(1).permutation(size)[: min(3, size // 2)].tolist())
    truth = _truth(5, size)
    cases = _Case("a chunk", truth, BLIND), _Case("a chunk with damaged images", truth, BLIND, lost=lost)
    chunks = [case.chunk(scheme) for case in cases]
    for case, chunk in zip(cases, chunks, strict=True):
        _decide(scheme, chunk, case)
    # Pools of some images depend on who was cleared before, and so does whether there are too few images.
    for whole, rest in zip(chunks[0].pools_of_all, chunks[1].pools_of_all, strict=False):
        _require(
            _pool_mates(whole, cases[0].places, lost) == _pool_mates(rest, cases[1].places, lost),
            "an image that cannot be read changes no other image's pools",
        )


def _pool_mates(pooling: Pooling, places: Images, lost: tuple[int, ...]) -> list[tuple[int, ...]]:
    pools = (sorted(set(places[pool[pool >= 0]].tolist()) - set(lost)) for pool in pooling.pools)
    return sorted(tuple(pool) for pool in pools if pool)


def _require(holds: bool, fact: str) -> None:
    if not holds:
        raise AssertionError(f"contract broken: {fact}")
