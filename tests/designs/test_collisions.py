"""Two sets with equal counts: against brute force, the theorem, and the paper's 50×100 design."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.decoders import MIP, Readings
from poolsieve.designs import (
    Pooling,
    balanced_design,
    coherence,
    describe,
    doubly_regular,
    grid_design,
    random_design,
    smallest_collision,
)


def counts(design, images):
    return design.dense()[:, list(images)].sum(axis=1)


def brute_size(design):
    """Smallest k for which two different sets of up to k images count the same; None if none do."""
    seen = {}
    for k in range(design.images + 1):
        for images in combinations(range(design.images), k):
            key = counts(design, images).tobytes()
            if key in seen:
                return k
            seen[key] = images
    return None


@st.composite
def small_poolings(draw):
    images = draw(st.integers(1, 8))
    matrix = draw(st.lists(st.lists(st.booleans(), min_size=images, max_size=images), min_size=1, max_size=6))
    return Pooling(map(np.flatnonzero, matrix), images)


@settings(deadline=None, max_examples=300)
@given(small_poolings())
def test_the_search_finds_what_trying_all_sets_finds(design):
    found = smallest_collision(design)
    assert found.size == brute_size(design)
    if found.sets is None:
        assert found.distinct == design.images
        assert str(found) == "none"
    else:
        one, other = found.sets
        assert not set(one) & set(other)
        assert max(len(one), len(other)) == found.size
        assert (counts(design, one) == counts(design, other)).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_design_has_two_sets_of_four_with_equal_counts(seed):
    design = balanced_design(100, 8, 4, seed)
    found = smallest_collision(design)
    assert found.size == 4  # c: with single overlaps none can be smaller
    assert (counts(design, found.sets[0]) == counts(design, found.sets[1])).all()
    assert describe(design, bad=4).error_factor is None


def test_no_decoder_tells_these_two_sets_of_the_papers_design_apart():
    design = balanced_design(100, 8, 4)
    one, other = (46, 58, 73, 91), (2, 37, 42, 74)
    assert (counts(design, one) == counts(design, other)).all()
    decoded = MIP(penalty=0.5).decode(Readings(counts(design, one)[None]), design).flags[0]
    assert not (decoded[list(one)].all() and decoded[list(other)].all())


@pytest.mark.parametrize(
    "design",
    [
        balanced_design(30, 5, 3),
        balanced_design(96, 8, 3),
        balanced_design(200, 8, 4),
        grid_design(4, 4),
        doubly_regular(40, 10, 6),
    ],
)
def test_sets_below_c_over_the_overlap_have_counts_of_their_own(design):
    found = smallest_collision(design)
    facts = describe(design)
    assert found.size >= -(-design.pools_per_image // coherence(design)) == facts.rip1_order
    assert facts.robust_bad < found.size
    assert found.distinct >= facts.guaranteed_disjunctness


def test_a_finite_plane_tells_all_sets_apart():
    # Its matrix can be inverted, so that counts without error tell everything.
    assert smallest_collision(balanced_design(13, 4, 4)).sets is None


def test_a_search_that_would_take_long_says_how_far_it_went():
    stopped = smallest_collision(balanced_design(200, 8, 4), steps=2000)
    assert stopped.sets is None
    assert stopped.distinct < 4
    assert str(stopped) == f"over {stopped.distinct}: search stopped"


def test_an_image_in_no_pool_counts_as_none():
    found = smallest_collision(random_design(100, 50, 0.08))
    assert found.size == 1
    assert str(found).endswith("count as no image")
