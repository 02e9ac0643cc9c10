from dataclasses import dataclass

import numpy as np
import pytest

from poolsieve.decoders import Decoder, Decoding, check_decoder, list_decoders, make_decoder
from poolsieve.decoders.binary_decoders import COMP


@pytest.mark.parametrize("name", list_decoders())
def test_every_registered_decoder_keeps_the_contract(name):
    check_decoder(make_decoder(name))


@pytest.mark.parametrize("solver", ["native", "highs"])
def test_every_exact_solver_keeps_the_contract(solver):
    check_decoder(make_decoder("mip", solver=solver))


@dataclass(frozen=True)
class LooksAtItsNeighbours(COMP):
    """Breaks the contract: a chunk's scores depend on the other chunks."""

    def _decode(self, readings, design, priors):
        good = super()._decode(readings, design, priors)
        return Decoding(good.scores + readings.counts.sum() * 1e-3, good.flags, good.solved)


@dataclass(frozen=True)
class FlagsEveryone(COMP):
    """Breaks the contract: flags images of clean chunks."""

    def _decode(self, readings, design, priors):
        good = super()._decode(readings, design, priors)
        return Decoding(np.ones_like(good.scores), np.ones_like(good.flags), good.solved)


@dataclass(frozen=True)
class AcceptsAnything(COMP):
    """Breaks the contract: takes readings that no pool can have."""

    def decode(self, readings, design, priors=None):
        try:
            return super().decode(readings, design, priors)
        except ValueError:
            return None


@pytest.mark.parametrize("broken", [LooksAtItsNeighbours, FlagsEveryone, AcceptsAnything])
def test_the_suite_catches_broken_decoders(broken):
    with pytest.raises(AssertionError):
        check_decoder(broken())


def test_unknown_names_list_what_exists():
    with pytest.raises(ValueError, match=r"no decoder is named 'classo2'.*Did you mean 'classo'.*mip"):
        make_decoder("classo2")


def test_listing_by_pattern():
    assert list_decoders("*comp") == ["comp", "ncomp", "scomp"]
    assert all(isinstance(make_decoder(name), Decoder) for name in list_decoders())


def test_unknown_parameters_name_the_known_ones():
    with pytest.raises(ValueError, match=r"CLasso has no parameter 'lam'.*penalty, threshold"):
        make_decoder("classo", lam=1.0)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("classo", {"penalty": -1.0}, r"CLasso: penalty=-1\.0, but it must be a number at least 0"),
        ("classo", {"threshold": 1.5}, r"threshold=1\.5.*at least 0 and at most 1"),
        ("mip", {"penalty": -0.1}, r"MIP: penalty=-0\.1"),
        ("mip", {"penalty": float("nan")}, r"penalty=nan"),
        ("mip", {"solver": "cplex"}, r"solver='cplex'.*one of auto, native, highs, gurobi"),
        ("mip", {"node_limit": 0}, r"node_limit=0.*whole number at least 1 .*or None"),
        ("ncomp", {"t": 1.5}, r"t=1\.5.*whole number"),
        ("bp", {"damping": 1.0}, r"damping=1\.0"),
        ("bp", {"tolerance": 0.0}, r"tolerance=0\.0.*above 0"),
        ("bp", {"rounds": 1e30}, r"rounds=1e\+30.*at most 1e\+09"),
        ("bp", {"noise": 3}, r"noise=3, but it must be a CountNoise or None"),
        ("mip", {"penalty": float("inf")}, r"penalty=inf"),
        ("mip", {"penalty": 10**400}, r"penalty=1000"),
        ("ncomp", {"t": float("inf")}, r"t=inf"),
    ],
)
def test_wrong_parameters_are_refused_in_one_form(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        make_decoder(name, **parameters)
