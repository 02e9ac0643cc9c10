"""COMP, NCOMP, DD, SCOMP: known facts of binary group testing."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.decoders import COMP, DD, NCOMP, SCOMP, tune
from poolsieve.designs import balanced_design, grid_design
from poolsieve.schemes import make_scheme

DESIGN = balanced_design(24, pool_size=4, pools_per_image=3, seed=1)


def chunks_with(bad_sets, images):
    bad = np.zeros((len(bad_sets), images), dtype=bool)
    for row, members in zip(bad, bad_sets, strict=True):
        row[list(members)] = True
    return bad


def test_comp_recovers_every_pair_of_bad_images(paper_design):
    bad = chunks_with(list(itertools.combinations(range(100), 2)), 100)
    assert np.array_equal(COMP().decode(paper_design.counts(bad), paper_design).flags, bad)


def test_comp_recovers_sampled_triples_of_bad_images(paper_design):
    triples = list(itertools.combinations(range(100), 3))
    chosen = np.random.default_rng(0).choice(len(triples), 20_000, replace=False)
    bad = chunks_with([triples[k] for k in chosen], 100)
    assert np.array_equal(COMP().decode(paper_design.counts(bad), paper_design).flags, bad)


def test_comp_fails_on_some_set_of_c_bad_images(paper_design):
    """c − 1 = 3 is all that is guaranteed: four bad images that hit the four pools of a fifth hide it."""
    image = 0
    cover = [next(i for i in paper_design.pools[q] if i != image) for q in paper_design.pools_of[image]]
    bad = chunks_with([cover], 100)
    flags = COMP().decode(paper_design.counts(bad), paper_design).flags
    assert flags[0, image] and not bad[0, image]


def test_the_papers_ncomp_example():
    """c = 3, at most one bad image, one of its tests wrong: two of three tests decide."""
    for image in range(DESIGN.images):
        for wrong in DESIGN.pools_of[image]:
            bad = np.zeros(DESIGN.images, dtype=bool)
            bad[image] = True
            missed = DESIGN.counts(bad)
            missed[wrong] = 0
            assert np.array_equal(NCOMP(t=1).decode(missed, DESIGN).flags[0], bad)
            false_alarm = np.zeros(DESIGN.pool_count, dtype=int)
            false_alarm[wrong] = 1
            assert not NCOMP(t=1).decode(false_alarm, DESIGN).flags.any()
            assert not COMP().decode(missed, DESIGN).flags.any()  # COMP loses it


@given(st.lists(st.integers(0, 4), min_size=18, max_size=18))
def test_ncomp_counts_strictly_more_than_t(counts):
    positive = (np.array(counts) > 0) @ DESIGN.dense()
    for t in range(3):
        assert np.array_equal(NCOMP(t=t).decode(counts, DESIGN).flags[0], positive > t)
    assert np.array_equal(NCOMP(t=2).decode(counts, DESIGN).flags, COMP().decode(counts, DESIGN).flags)


@settings(max_examples=200)
@given(st.sets(st.integers(0, 23), max_size=8))
def test_without_noise_dd_and_comp_enclose_the_truth(bad_set):
    bad = chunks_with([bad_set], 24)
    counts = DESIGN.counts(bad)
    definite, comp = DD().decode(counts, DESIGN), COMP().decode(counts, DESIGN)
    assert not (definite.flags & ~bad).any()  # DD flags no clear image
    assert not (bad & ~comp.flags).any()  # COMP clears no bad one
    assert np.array_equal(definite.scores > 0, comp.flags)


@settings(max_examples=200)
@given(st.sets(st.integers(0, 23), max_size=8))
def test_without_noise_scomp_explains_every_positive_pool_and_no_other(bad_set):
    bad = chunks_with([bad_set], 24)
    counts = DESIGN.counts(bad)
    flags = SCOMP().decode(counts, DESIGN).flags
    assert np.array_equal(DESIGN.counts(flags) > 0, counts > 0)
    assert not (DD().decode(counts, DESIGN).flags & ~flags).any()


def brute_force_definite(counts, design):
    """DD by its definition, pool by pool."""
    positive = counts > 0
    possible = [j for j in range(design.images) if positive[design.pools_of[j]].all()]
    definite = set()
    for q in np.flatnonzero(positive):
        candidates = [j for j in design.pools[q] if j in possible]
        if len(candidates) == 1:
            definite.add(int(candidates[0]))
    return definite


@given(st.lists(st.integers(0, 1), min_size=18, max_size=18))
def test_dd_follows_its_definition_under_any_readings(counts):
    flags = DD().decode(counts, DESIGN).flags[0]
    assert set(np.flatnonzero(flags)) == brute_force_definite(np.array(counts), DESIGN)


@pytest.mark.parametrize("decoder", [SCOMP(), DD()])
def test_pools_that_noise_made_inexplicable_are_left(decoder):
    """A positive pool whose images are all cleared elsewhere must not stop the search."""
    counts = np.zeros(DESIGN.pool_count, dtype=int)
    counts[3] = 1
    assert not decoder.decode(counts, DESIGN).flags.any()


def test_ncomp_is_refused_where_it_can_flag_nothing():
    design = grid_design(4, 4)  # every image in two pools
    counts = np.ones(design.pool_count, dtype=np.int64)
    assert NCOMP(t=1).decode(counts, design).flags.all()
    with pytest.raises(ValueError, match=r"t=2 flags only .* no image is in more than 2: take t below 2"):
        NCOMP(t=2).decode(counts, design)
    with pytest.raises(ValueError, match="t=4"):
        make_scheme("oneshot", [8], pools_per_image=4, decoder="ncomp:t=4")
    assert NCOMP().grid(design) == {"t": (0, 1)}
    bad = np.eye(16, dtype=bool)
    assert tune(NCOMP(), design.counts(bad), bad, design=design).best.parameters == {"t": 1}
