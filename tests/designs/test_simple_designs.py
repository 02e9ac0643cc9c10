"""Disjoint, grid, random and doubly regular designs: each has the guarantees it claims."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poolsieve.designs import (
    Pooling,
    PoolingDesign,
    disjoint_design,
    doubly_regular,
    grid_design,
    random_design,
)


@given(st.integers(1, 60), st.integers(1, 60), st.none() | st.integers(0, 9))
def test_disjoint_pools_hold_every_image_once(images, pool_size, seed):
    design = disjoint_design(images, pool_size, seed)
    assert (design.image_weights == 1).all()
    assert design.pool_count == -(-images // pool_size)
    assert design.pool_size == pool_size
    assert (design.pool_sizes[:-1] == pool_size).all()
    assert design.guarantees.max_shared == 0
    balanced = images % pool_size == 0
    assert isinstance(design, PoolingDesign) == balanced
    assert design.guarantees.equal_pools == balanced


def test_disjoint_pools_are_in_order_or_dealt_by_seed():
    assert disjoint_design(5, 2).pools.tolist() == [[0, 1], [2, 3], [4, -1]]
    assert disjoint_design(50, 5, 1) == disjoint_design(50, 5, 1)
    assert len({disjoint_design(50, 5, seed) for seed in (None, 0, 1, 2)}) == 4


@given(st.integers(1, 12), st.integers(1, 12))
def test_a_grid_has_its_rows_and_columns_as_pools(rows, columns):
    design = grid_design(rows, columns)
    assert design.shape == (rows + columns, rows * columns)
    assert (design.image_weights == 2).all()
    assert sorted(design.pool_sizes.tolist()) == sorted([columns] * rows + [rows] * columns)
    assert design.guarantees.max_shared == 1
    assert isinstance(design, PoolingDesign) == (rows == columns)
    # A row and a column meet in exactly the image that stands there.
    row, column = rows - 1, columns - 1
    both = set(design.pools[row].tolist()) & set(design.pools[rows + column].tolist()) - {-1}
    assert both == {row * columns + column}


def test_random_pools_have_the_density_asked_for():
    design = random_design(400, 300, 0.1, seed=3)
    assert design.shape == (300, 400)
    assert abs(design.image_weights.sum() / (300 * 400) - 0.1) < 0.005
    assert not design.guarantees.equal_pools
    assert not design.guarantees.equal_images
    assert design == random_design(400, 300, 0.1, seed=3)
    assert design != random_design(400, 300, 0.1, seed=4)
    assert (random_design(5, 4, 1).pool_sizes == 5).all()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(0, 9))
def test_doubly_regular_exists_whenever_the_places_divide(images, pool_size, pools_per_image, seed):
    assume(pool_size <= images and images * pools_per_image % pool_size == 0)
    design = doubly_regular(images, pool_size, pools_per_image, seed)
    assert (design.pool_sizes == pool_size).all()
    assert (design.image_weights == pools_per_image).all()
    assert design.guarantees.equal_pools
    assert design.guarantees.equal_images
    assert design == doubly_regular(images, pool_size, pools_per_image, seed)


def test_doubly_regular_is_random_and_overlaps_more_than_balanced():
    designs = {doubly_regular(100, 8, 4, seed) for seed in range(10)}
    assert len(designs) == 10
    assert all(design.guarantees.max_shared > 1 for design in designs)
    # Mixed thoroughly: two given images share a pool about as often as chance says, c(r − 1)/(n − 1) = .28.
    shared = [
        bool(set(design.pools_of[0].tolist()) & set(design.pools_of[1].tolist()))
        for design in (doubly_regular(100, 8, 4, seed) for seed in range(400))
    ]
    assert 0.18 < np.mean(shared) < 0.36


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: disjoint_design(0, 3), "images=0 is not positive"),
        (lambda: disjoint_design(5, 0), "pool_size=0 is not positive"),
        (lambda: grid_design(0, 3), "rows=0 is not positive"),
        (lambda: grid_design(3, 2.5), "columns=2.5 is not a whole number"),
        (lambda: random_design(10, 0, 0.1), "pools=0 is not positive"),
        (lambda: random_design(10, 5, 0), r"probability=0 is not in \(0, 1\]"),
        (lambda: random_design(10, 5, float("nan")), "probability=nan"),
        (lambda: doubly_regular(10, 4, 3), r"m·r = n·c fails.*images=8, .*images=12, "),
        (lambda: doubly_regular(3, 4, 3), r"a pool of 4 needs at least 4 images.*images=4, "),
    ],
)
def test_wrong_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_restricting_a_design_with_an_image_in_no_pool_leaves_a_valid_scheme():
    part = Pooling([[1]], 2).restrict(1)
    assert part.shape == (1, 1)
    assert part.counts([1]).tolist() == [0]
