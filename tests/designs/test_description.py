"""What is said of a design: against brute force, against the paper, and against theorems."""

import dataclasses
import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.designs import (
    Pooling,
    balanced_design,
    coherence,
    describe,
    disjoint_design,
    disjunctness_limit,
    doubly_regular,
    exact_disjunctness,
    fewest_binary_tests,
    fewest_quantitative_tests,
    grid_design,
    guaranteed_disjunctness,
    normalised_coherence,
    random_design,
)


def is_disjunct(design, k):
    """By definition: no column is part of the union of any k others."""
    columns = design.dense().T.astype(bool)
    n = len(columns)
    for j in range(n):
        for others in combinations([i for i in range(n) if i != j], min(k, n - 1)):
            union = np.zeros(design.pool_count, dtype=bool)
            for i in others:
                union |= columns[i]
            if not (columns[j] & ~union).any():
                return False
    return True


def brute_disjunctness(design):
    return max((k for k in range(design.images) if is_disjunct(design, k)), default=-1)


@st.composite
def small_poolings(draw):
    images = draw(st.integers(1, 6))
    matrix = draw(st.lists(st.lists(st.booleans(), min_size=images, max_size=images), min_size=1, max_size=7))
    return Pooling(map(np.flatnonzero, matrix), images)


@settings(deadline=None, max_examples=200)
@given(small_poolings())
def test_exact_disjunctness_is_that_of_the_definition(design):
    exact = brute_disjunctness(design)
    assert exact_disjunctness(design) == exact
    assert guaranteed_disjunctness(design) <= exact
    limit = disjunctness_limit(design)
    assert limit is None or exact <= limit


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 7), st.integers(1, 7), st.integers(1, 5), st.integers(0, 99))
def test_no_design_with_column_weight_k_and_fewer_rows_than_columns_is_k_disjunct(steps, r, k, seed):
    # Erdős, Frankl and Füredi 1985, Prop. 2.1 with t = 1, as in the paper's appendix.
    images = steps * r // math.gcd(r, k)
    if not r <= images <= 14:
        return
    design = doubly_regular(images, r, k, seed)
    if design.pool_count < images:
        assert not is_disjunct(design, k)
        assert exact_disjunctness(design) <= k - 1 == disjunctness_limit(design)
    else:
        assert disjunctness_limit(design) is None


@pytest.mark.parametrize("size", [(9, 3, 3), (13, 4, 4), (16, 4, 3), (20, 4, 3), (12, 6, 1), (10, 1, 2)])
def test_balanced_designs_are_exactly_c_minus_one_disjunct(size):
    design = balanced_design(*size)
    exact = brute_disjunctness(design) if size[1] == 1 else size[2] - 1
    assert exact_disjunctness(design) == guaranteed_disjunctness(design) == exact
    if size[0] <= 13:
        assert brute_disjunctness(design) == exact


def test_the_exact_search_is_for_small_designs_unless_overlaps_are_single():
    assert exact_disjunctness(doubly_regular(300, 10, 4)) is None
    assert exact_disjunctness(doubly_regular(120, 60, 13)) is None
    assert exact_disjunctness(balanced_design(2000, 8, 4)) == 3
    large = describe(doubly_regular(300, 10, 4))
    assert large.exact_disjunctness is None
    assert "not searched: over 256 images" in str(large)


def test_the_exact_search_beats_the_guarantee_where_overlaps_are_spread():
    # Two images share 3 or more of 6 pools, which guarantees 1; some of these designs do better.
    found = [
        (guaranteed_disjunctness(design), exact_disjunctness(design))
        for design in (doubly_regular(60, 6, 6, seed) for seed in range(8))
    ]
    assert all(low <= exact for low, exact in found)
    assert any(low < exact for low, exact in found)


def test_the_papers_matrix():
    facts = describe(balanced_design(100, 8, 4), bad=3)
    assert (facts.pools, facts.images, facts.cost_ratio) == (50, 100, 0.5)
    assert facts.pool_sizes == (8, 8)
    assert facts.image_weights == (4, 4)
    assert facts.guarantees.single_overlap
    assert facts.coherence == 1
    assert facts.normalised_coherence == 0.25
    assert facts.guaranteed_disjunctness == facts.exact_disjunctness == facts.disjunctness_limit == 3
    assert facts.rip1_order == 4  # c
    assert facts.robust_bad == 2
    assert facts.expansion == 5 / 8  # (2k − 1)/(2c): too large for an error factor
    assert facts.error_factor is None
    two = describe(balanced_design(100, 8, 4), bad=2)
    assert two.expansion == 3 / 8
    assert two.error_factor == (7 - 4 * 0.375) / (1 - 2 * 0.375) == 22
    # 166,751 sets of up to 3 of 100; 2^17 = 131,072 and 4^8 = 65,536 are too few.
    assert facts.fewest_binary_tests == 18
    assert facts.fewest_quantitative_tests == 9


def test_expansion_ends_with_the_orders():
    design = balanced_design(100, 8, 4)
    for bad in range(1, 12):
        facts = describe(design, bad)
        assert (facts.expansion is not None) == (2 * bad <= 2 * facts.rip1_order)
        assert (facts.error_factor is not None) == (bad <= facts.robust_bad)
        assert facts.error_factor is None or bad < facts.collision.size
    assert describe(random_design(40, 20, 0.2)).rip1_order is None


@pytest.mark.parametrize(
    "design", [balanced_design(30, 5, 3), grid_design(4, 4), doubly_regular(30, 5, 4), disjoint_design(12, 4)]
)
def test_rip1_holds_for_random_vectors(design):
    rng = np.random.default_rng(0)
    c, order = design.pools_per_image, describe(design, 1).rip1_order
    for entries in range(1, order + 1):
        epsilon = coherence(design) * (entries - 1) / (2 * c)
        assert epsilon < 1 / 2
        for _ in range(50):
            vector = np.zeros(design.images)
            chosen = rng.choice(design.images, entries, replace=False)
            vector[chosen] = rng.standard_normal(entries)
            seen, length = np.abs(design.sparse @ vector).sum(), np.abs(vector).sum()
            assert (1 - 2 * epsilon) * c * length - 1e-9 <= seen <= c * length + 1e-9
            assert len(np.unique(design.pools_of[chosen])) >= (1 - epsilon) * c * entries - 1e-9


@settings(deadline=None)
@given(small_poolings())
def test_coherence_is_the_largest_product_of_two_columns(design):
    columns = design.dense().T.astype(float)
    lengths = np.linalg.norm(columns, axis=1)
    pairs = list(combinations(range(design.images), 2))
    assert coherence(design) == max((columns[i] @ columns[j] for i, j in pairs), default=0)
    cosines = [
        columns[i] @ columns[j] / (lengths[i] * lengths[j]) for i, j in pairs if lengths[i] and lengths[j]
    ]
    assert normalised_coherence(design) == pytest.approx(max(cosines, default=0))


@given(st.integers(1, 40), st.data())
def test_counting_bounds_are_the_smallest_numbers_that_satisfy_the_inequalities(images, data):
    bad = data.draw(st.integers(0, images))
    sets = sum(math.comb(images, i) for i in range(bad + 1))
    binary, counting = fewest_binary_tests(images, bad), fewest_quantitative_tests(images, bad)
    assert 2**binary >= sets
    assert binary == 0 or 2 ** (binary - 1) < sets
    assert (bad + 1) ** counting >= sets
    assert counting == 0 or (bad + 1) ** (counting - 1) < sets
    assert counting <= binary <= images


def test_counting_bounds_are_exact_for_large_numbers():
    # Where floating point would overflow: all subsets of 3000 images take 3000 yes/no tests.
    assert fewest_binary_tests(3000, 3000) == 3000
    assert fewest_binary_tests(3000, 2999) == 3000
    assert fewest_binary_tests(5, 0) == fewest_quantitative_tests(5, 0) == 0


@pytest.mark.parametrize("bad", [-1, 11])
def test_counting_bounds_need_a_possible_number_of_bad_images(bad):
    for bound in (fewest_binary_tests, fewest_quantitative_tests):
        with pytest.raises(ValueError, match=f"0 to 10, not {bad}"):
            bound(10, bad)


@pytest.mark.parametrize("bad", [0, 101])
def test_describe_needs_a_possible_number_of_bad_images(bad):
    with pytest.raises(ValueError, match=f"bad={bad}: .* 1 to 100"):
        describe(balanced_design(100, 8, 4), bad)


@pytest.mark.parametrize(
    "design",
    [
        Pooling([[0]], 1),
        Pooling([[0], []], 2),
        grid_design(1, 5),
        disjoint_design(10, 4),
        random_design(30, 10, 0.1),
        doubly_regular(4, 4, 2),
        balanced_design(5, 1, 2),
    ],
)
def test_every_design_can_be_described(design):
    facts = describe(design)
    lines = str(facts).splitlines()
    assert len(lines) == len(facts.rows())
    assert f"{design.pool_count} × {design.images}" in lines[0]
    if (design.image_weights == 0).any():
        assert facts.exact_disjunctness == facts.guaranteed_disjunctness == -1
        assert "an image is in no pool" in str(facts)


def test_descriptions_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe(grid_design(2, 2)).pools = 3
