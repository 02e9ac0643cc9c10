"""Which chunks have readings that were not to be expected."""

import numpy as np
import pytest

from poolsieve.decoders import CountNoise, Readings
from poolsieve.designs import balanced_design
from poolsieve.schemes.plausibility import find_surprise

NOISE = CountNoise.nominal(8)


@pytest.fixture(scope="module")
def design():
    return balanced_design(100, 8, 4, seed=0)


def surprises(design, share, stated, chunks=400, noise=NOISE):
    """What is found in chunks whose images are bad with probability `share`."""
    rng = np.random.default_rng(0)
    readings = noise.sample(rng.random((chunks, 100)) < share, design, rng)
    return [find_surprise(readings.block(k, k + 1), design, noise, stated) for k in range(chunks)]


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("noise", [NOISE, CountNoise.none(8)], ids=["noisy", "exact"])
def test_chunks_as_stated_hardly_ever_surprise(design, share, noise):
    found = surprises(design, share, share, noise=noise)
    assert sum(one is not None for one in found) <= 0.05 * len(found)


def test_more_bad_images_than_stated_are_noticed_and_estimated(design):
    found = surprises(design, 0.2, 0.01, chunks=100)
    assert None not in found
    assert np.mean([one.prevalence for one in found]) == pytest.approx(0.2, abs=0.02)
    assert {one.reason for one in found} == {"improbable at a prevalence of 0.01"}


def test_more_bad_images_than_pools_can_tell_apart_are_noticed_though_stated(design):
    found = surprises(design, 0.3, 0.3, chunks=100)
    assert None not in found
    reasons = [one.reason for one in found]
    assert reasons.count("more than pools of 8 can tell apart") > 90


def test_fewer_bad_images_than_stated_are_no_surprise(design):
    clean = Readings(np.zeros((1, 50), dtype=int))
    assert find_surprise(clean, design, NOISE, 0.14) is None


def test_the_note_tells_a_person_what_was_found_and_done(design):
    (one,) = surprises(design, 0.2, 0.01, chunks=1)
    bad = round(100 * one.prevalence)
    assert one.note(77) == (
        f"its pools tell of about {bad} bad images among 100, improbable at a prevalence of 0.01; so 77 "
        "doubtful ones were tested individually"
    )
