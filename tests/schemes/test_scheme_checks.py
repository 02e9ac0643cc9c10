"""Every scheme keeps the contract, and the suite that says so notices all kinds of breakage."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from poolsieve.bundles.config import FRONT_GRAPH, GLANCE_GRAPH
from poolsieve.decoders import Interval, parameter
from poolsieve.designs import disjoint_design
from poolsieve.schemes import (
    DecodedPools,
    DisjointPools,
    Glance,
    Head,
    Pools,
    Scheme,
    Test,
    check_scheme,
    cost_model,
    list_schemes,
    make_scheme,
    register_stage,
    stages,
)
from poolsieve.schemes.cost_model import FRONT, Part, register_part
from poolsieve.schemes.stages import Stage


@pytest.mark.parametrize("name", list_schemes())
def test_every_named_scheme_keeps_the_contract(name):
    check_scheme(make_scheme(name, (4, 8)))


LISTS = {
    "three looks": (Glance(), Head(), Test()),
    "a look that flags": (Glance(flag_above=0.9), Test()),
    "two kinds of pools": (Pools(), DisjointPools(pool_size=4), Test(recompute=True)),
    "pools of two sizes": (
        Head(clear_below=0.004, test_above=0.1),
        Pools(pool_size=4, pools_per_image=1, large_below=0.005, large_pool_size=8),
        Test(),
    ),
    "pools of another size": (Pools(pool_size=16), Test()),
    "three rounds": (DisjointPools(pool_size=8), DisjointPools(pool_size=4), Test()),
    "four rounds, the paper's tests": (
        DisjointPools(pool_size=16),
        DisjointPools(pool_size=8),
        DisjointPools(pool_size=4),
        Test(recompute=True),
    ),
    "a decoder after a look": (Glance(), DecodedPools(decoder="bp")),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_without_a_name_keep_it_too(name):
    check_scheme(Scheme(LISTS[name]))


def test_chunks_may_be_small():
    check_scheme(Scheme((Head(), Test()), chunk=1))
    check_scheme(Scheme((DisjointPools(pool_size=4), Test()), chunk=4))
    with pytest.raises(ValueError, match="no balanced design"):
        check_scheme(Scheme((Pools(), Test()), chunk=9))


@pytest.fixture
def registry(monkeypatch):
    """Stages that are registered here are forgotten afterwards."""
    monkeypatch.setattr(stages, "_REGISTRY", dict(stages._REGISTRY))


def registered(kind):
    return register_stage(kind.__name__.lower())(dataclass(frozen=True)(kind))


@dataclass(frozen=True)
class Dimness(Stage):
    """Clears dark images by their pixels alone."""

    below: float = parameter(100.0, Interval(low=0, high=255))

    def look(self, undecided):
        light = undecided.chunk.view(undecided.chunk.everyone)[:, 0, 0, 0].astype(np.float64)
        undecided.decide(undecided.open & (light < self.below), light / 255, False, self.name)

    def graphs(self, config):
        return []

    def parts(self, price, *, gated):
        return ()


def test_a_stage_of_ones_own_keeps_it_whatever_its_name(registry):
    """`decided_by` holds names that are longer than those of our own stages."""
    kind = register_stage("dimness_of_the_first_pixel")(Dimness)
    check_scheme(Scheme((kind(), Test())))
    check_scheme(Scheme((Head(clear_below=0), kind(below=50.0), Pools(), Test())))


class LeavesTheFirst(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided.open[0] = True


class DecidesAsSomebody(Test):
    def look(self, undecided):
        images = undecided.open.copy()
        super().look(undecided)
        undecided.decide(images, undecided._scores, undecided._flags, "somebody")


class GivesNoNumbers(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided._scores[-1] = np.nan


class TakesNoFewerThanTwo(Test):
    def look(self, undecided):
        if len(undecided.chunk) < 2:
            raise IndexError("a second image")
        super().look(undecided)


class HasMoods(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided._scores += np.random.default_rng().random() / 10


SEEN = []


class Remembers(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided._scores += len(SEEN) * 1e-6
        SEEN.append(1)


class DealsByNumber(DisjointPools):
    def _read(self, undecided):
        chunk = undecided.chunk
        pooling = disjoint_design(len(chunk), self.pool_size)
        return (pooling, chunk.read_pools(pooling)) if pooling.pool_count < len(chunk) else None


class PaintsImages(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided.chunk.pixels[:, 3] = 7


class PaintsFeatures(Test):
    def look(self, undecided):
        undecided.chunk.features(undecided.chunk.everyone)[0] = 0.5
        super().look(undecided)


class LooksInSecret(Glance):
    def log_likelihoods(self, chunk, images):
        return chunk.likelihoods.of_glances(chunk.networks.glance(chunk.view(images)))


SQUINT = Part("squint", "squints", "squint", ("glance",))


class Squints(Glance):
    """Runs the glance as a part of its own."""

    def log_likelihoods(self, chunk, images):
        chunk.meter.runs[SQUINT.name] += len(images)
        return chunk.likelihoods.of_glances(chunk.networks.glance(chunk.view(images)))

    def parts(self, price, *, gated):
        return (SQUINT,)


class ReckonsTooLittle(Head):
    def parts(self, price, *, gated):
        return (FRONT,)


class NamesAnotherGraph(Glance):
    def graphs(self, config):
        return [FRONT_GRAPH, GLANCE_GRAPH, "second-glance.onnx"]


class HoldsASet(Test):
    names: frozenset = field(default=frozenset({"a"}))


class ForgetsASetting(Test):
    margins: tuple = (0.1, 0.2)  # JSON knows lists only


class FlagsTheFirst(Test):
    def look(self, undecided):
        super().look(undecided)
        undecided._flags[0] = True


class ClearsEverything(Dimness):
    def look(self, undecided):
        undecided.decide(undecided.open.copy(), np.zeros(len(undecided.chunk)), False, self.name)


class CountsTwice(DisjointPools):
    def _decide(self, undecided, pooling, readings):
        super()._decide(undecided, pooling, readings)
        undecided.chunk.meter.images += 1


BROKEN = [
    (LeavesTheFirst, r"a chunk of 100 images is decided about; AssertionError: .*left images undecided"),
    (DecidesAsSomebody, r"decided_by is one of \['decidesassomebody', 'individual'\]; not \['somebody'\]"),
    (GivesNoNumbers, "scores are finite"),
    (TakesNoFewerThanTwo, "a chunk of 1 images is decided about; IndexError: a second image"),
    (HasMoods, "same images and seed give the same decision"),
    (Remembers, "whatever was decided before"),
    (DealsByNumber, "image that cannot be read changes no other image's pools"),
    (PaintsImages, "images are not changed"),
    (PaintsFeatures, "features of a chunk are not changed"),
    (LooksInSecret, r"the meter counts what was run; counted nothing, run glance 100"),
    (CountsTwice, "the meter counts every image once"),
    (
        ReckonsTooLittle,
        r"work reckons what the meter counts; reckoned front 0.22, counted front 0.22, head 0.01",
    ),
    (NamesAnotherGraph, r"graphs are among the bundle's, front.onnx.*; not \['second-glance.onnx'\]"),
    (HoldsASet, "can be written down and read; .*frozenset is not JSON serializable"),
    (ForgetsASetting, "is read as it was"),
    (FlagsTheFirst, "networks that are sure flag no clear image"),
    (ClearsEverything, "networks that are sure miss no bad image"),
]


@pytest.mark.parametrize(("kind", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_the_suite_says_what_a_broken_stage_breaks(registry, kind, words):
    stage = registered(kind)()
    with pytest.raises(AssertionError, match=f"^contract broken: .*{words}"):
        check_scheme(Scheme((stage,) if stage.decides else (stage, Test())))


def test_a_bound_that_no_bad_image_reaches_is_noticed():
    """One bad image of a pool of four has a posterior of a quarter, however many are bad elsewhere."""
    pools = Pools(pool_size=4, pools_per_image=1, retest_above=0.3)
    with pytest.raises(AssertionError, match="networks that are sure miss no bad image"):
        check_scheme(Scheme((pools, Test()), prevalence=0.35))


def test_a_part_of_ones_own_is_metered_like_any(registry, monkeypatch):
    monkeypatch.setattr(cost_model, "_PARTS", dict(cost_model._PARTS))
    register_part(SQUINT)
    check_scheme(Scheme((registered(Squints)(), Test())))


def test_a_stage_that_is_not_registered_cannot_be_written_down():
    @dataclass(frozen=True)
    class Stranger(Dimness):
        name = "stranger"

    with pytest.raises(AssertionError, match="written down and read; no stage is named 'stranger'"):
        check_scheme(Scheme((Stranger(), Test())))
