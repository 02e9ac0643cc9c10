"""The design type: what it checks, shows, keeps and refuses to change."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.designs import NO_IMAGE, Pooling, PoolingDesign, balanced_design, grid_design, random_design

FANO = [[0, 1, 2], [0, 3, 4], [0, 5, 6], [1, 3, 5], [1, 4, 6], [2, 3, 6], [2, 4, 5]]


@st.composite
def poolings(draw):
    images = draw(st.integers(1, 9))
    pools = draw(
        st.lists(st.lists(st.integers(0, images - 1), unique=True, max_size=images), min_size=1, max_size=9)
    )
    return Pooling(pools, images, pool_size=draw(st.integers(images, images + 2)))


@given(poolings())
def test_index_arrays_and_matrix_views_say_the_same(design):
    dense = design.dense()
    assert dense.shape == design.shape
    assert (design.sparse.toarray() == dense).all()
    assert (dense.sum(axis=1) == design.pool_sizes).all()
    assert (dense.sum(axis=0) == design.image_weights).all()
    for j in range(design.images):
        held = design.pools_of[j] != NO_IMAGE
        assert design.pools_of[j][held].tolist() == np.flatnonzero(dense[:, j]).tolist()
        assert (design.pools[design.pools_of[j][held], design.places_of[j][held]] == j).all()
        assert (design.places_of[j][~held] == NO_IMAGE).all()
    shared = dense.astype(int) @ dense.T
    np.fill_diagonal(shared, 0)
    assert design.guarantees.max_shared == shared.max()


@given(poolings(), st.data())
def test_counts_are_the_matrix_times_the_bad_images(design, data):
    bad = np.array(data.draw(st.lists(st.booleans(), min_size=design.images, max_size=design.images)))
    expected = design.dense().astype(int) @ bad
    assert (design.counts(bad) == expected).all()
    assert (design.counts(np.stack([bad, ~bad]).astype(float))[0] == expected).all()


@given(poolings(), st.data())
def test_restrict_loses_no_image_and_changes_no_count(design, data):
    assert design.restrict(design.images) is design
    for images in range(1, design.images):
        part = design.restrict(images)
        assert part.images == images
        assert part.pool_size == design.pool_size
        assert (part.image_weights == design.image_weights[:images]).all()
        bad = np.array(data.draw(st.lists(st.booleans(), min_size=images, max_size=images)))
        whole = design.counts(np.concatenate([bad, np.zeros(design.images - images, dtype=bool)]))
        kept = (design.dense()[:, :images] != 0).any(axis=1)
        assert (whole[~kept] == 0).all()
        if kept.any():
            assert (part.counts(bad) == whole[kept]).all()


def test_a_table_of_pools_is_the_same_as_their_lists():
    table = np.array([[5, -1, 2, 0], [1, 3, -1, -1], [-1, -1, -1, 4]])
    lists = Pooling([[5, 2, 0], [1, 3], [4]], 6, pool_size=4)
    assert np.array_equal(Pooling(table, 6, pool_size=4).pools, lists.pools)
    assert Pooling(table, 6).pool_size == 3
    for row, column, image, message in (
        (1, 0, 6, "pool 1 names image 6"),
        (0, 1, 2, "pool 0 holds image 2 twice"),
        (2, 3, -2, "pool 2 names image -2"),
    ):
        wrong = table.copy()
        wrong[row, column] = image
        with pytest.raises(ValueError, match=message):
            Pooling(wrong, 6)


def test_restrict_keeps_single_overlaps_and_every_pool_of_every_image():
    design = balanced_design(24, 4, 3)
    for images in range(1, 25):
        part = design.restrict(images)
        assert part.guarantees.single_overlap
        assert (part.image_weights == 3).all()
        assert (part.pool_sizes >= 1).all()
    with pytest.raises(ValueError, match="1 to 24"):
        design.restrict(0)
    with pytest.raises(ValueError, match="not 25"):
        design.restrict(25)


@pytest.mark.parametrize("bad", [np.zeros(6), np.zeros((2, 8)), 3, np.full(7, np.nan), np.full(7, 2)])
def test_counts_refuses_what_is_not_one_flag_per_image(bad):
    with pytest.raises(ValueError, match=r"shape|other than 0 and 1"):
        PoolingDesign(FANO, 7).counts(bad)


def test_known_design_passes_the_checks():
    design = PoolingDesign(FANO, 7)
    assert design.shape == (7, 7)
    assert (design.pool_size, design.pools_per_image) == (3, 3)
    assert design.guarantees.equal_pools
    assert design.guarantees.equal_images
    assert design.guarantees.max_shared == 1
    assert "two pools share at most 1 image" in str(design.guarantees)


@pytest.mark.parametrize(
    ("pools", "images", "message"),
    [
        ([[0, 1], [2]], 3, "pool 1 holds 1 images and not 2"),
        ([[0, 1], [0, 2]], 3, "image 1 is in 1 pools and image 0 in 2"),
        ([[4, 5], [0, 1, 2], [0, 1, 3]], 6, "pool 0 holds 2 images"),
        ([[0, 1], [2, 3], [0, 1], [2, 3]], 4, r"pools 0 and 2 share 2 images \(0, 1\).*2×2"),
        ([[0, 1], [0, 3]], 3, "pool 1 names image 3.*0 to 2"),
        ([[0, -2], [0, 1]], 3, "pool 0 names image -2"),
        ([[0, 1], [1, 1]], 2, "pool 1 holds image 1 twice"),
        ([[0.5, 1.0]], 2, "pool 0 is not a list of image numbers"),
        ([], 3, "at least one pool"),
        ([[]], 3, "pool 0 holds 0 images and not 1"),
        ([[0]], 0, "1 to 20000000 images, not 0"),
    ],
)
def test_a_design_that_breaks_a_condition_is_refused_with_the_place(pools, images, message):
    with pytest.raises(ValueError, match=message):
        PoolingDesign(pools, images)


def test_pool_size_below_the_largest_pool_is_refused():
    with pytest.raises(ValueError, match="pool_size=1, but one pool holds 2"):
        Pooling([[0, 1]], 2, pool_size=1)


def test_designs_are_immutable():
    design = balanced_design(12, 3, 2)
    for array in (
        design.pools,
        design.pools_of,
        design.places_of,
        design.pool_sizes,
        design.image_weights,
        design.sparse.data,
        design.sparse.indices,
        pickle.loads(pickle.dumps(design)).pools,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 5
    for name in ("images", "_pools", "pools", "sparse", "anything"):
        with pytest.raises(AttributeError, match=r"immutable|setter"):
            setattr(design, name, 1)


def test_the_given_array_may_change_afterwards():
    pools = np.array(FANO)
    design = PoolingDesign(pools, 7)
    pools[:] = 0
    assert design == PoolingDesign(FANO, 7)


def test_equal_content_is_equal_and_hashes_the_same():
    design = PoolingDesign(FANO, 7)
    same = Pooling([pool[::-1] for pool in FANO], 7)
    assert design == same
    assert hash(design) == hash(same)
    assert design.fingerprint == same.fingerprint
    for other in (
        Pooling(FANO[::-1], 7),
        Pooling(FANO, 8),
        Pooling(FANO, 7, pool_size=4),
        Pooling(FANO[:-1], 7),
    ):
        assert design != other
        assert design.fingerprint != other.fingerprint
    assert design != "a design"
    assert pickle.loads(pickle.dumps(design)) == design
    assert type(pickle.loads(pickle.dumps(design))) is PoolingDesign


def test_the_fingerprint_is_the_same_on_every_machine():
    # Verdict records name designs by it, so it may never change.
    assert PoolingDesign(FANO, 7).fingerprint[:16] == "cc81fe5770687ecf"


def test_an_empty_pool_and_an_image_in_no_pool_are_allowed_in_general():
    design = Pooling([[], [0]], 2)
    assert design.pool_sizes.tolist() == [0, 1]
    assert design.image_weights.tolist() == [1, 0]
    assert design.counts([1, 1]).tolist() == [0, 1]
    assert not design.guarantees.equal_images
    assert design.restrict(1).shape == (1, 1)


def test_repr_names_the_size():
    assert "7 pools × 7 images, pool size 3, 3 pools per image" in repr(PoolingDesign(FANO, 7))


def test_the_rows_of_the_matrix_are_the_pools():
    for design in (grid_design(3, 4), random_design(20, 10, 0.3)):
        assert Pooling(map(np.flatnonzero, design.dense()), design.images) == design
