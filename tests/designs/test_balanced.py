"""Balanced designs: every feasible size, every refusal, and the same design for the same seed."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poolsieve.designs import PoolingDesign, balanced_design
from poolsieve.designs.edge_switching import edge_switching
from poolsieve.designs.feasibility import Parameters, broken_bound
from poolsieve.designs.finite_geometry import array_code, finite_plane
from poolsieve.designs.quasi_cyclic import quasi_cyclic

# Sizes of the study, with the paper's 50×100, square and prime fields, and Steiner systems.
SIZES = [
    (100, 8, 4), (1000, 8, 4), (96, 8, 4), (104, 8, 4), (100, 8, 2), (100, 10, 2), (100, 12, 3), (200, 8, 3),
    (104, 8, 3), (1000, 8, 3), (1000, 16, 4), (1000, 16, 2), (1000, 20, 4), (400, 16, 4), (64, 8, 4),
    (64, 8, 3), (49, 7, 4), (121, 11, 5), (57, 8, 8), (256, 16, 4), (240, 15, 3), (150, 6, 3), (999, 9, 3),
    (1024, 8, 4), (1000, 25, 5), (2000, 8, 4), (384, 8, 4), (120, 12, 3), (208, 16, 4), (100, 4, 4),
    (13, 4, 4), (176, 11, 8), (56, 7, 8), (1, 1, 1), (1, 1, 5), (5, 1, 1), (5, 1, 3), (6, 6, 1), (6, 3, 1),
    (4, 2, 3), (9, 3, 4), (15, 2, 14), (500, 2, 1), (1105, 17, 3),
]  # fmt: skip


def assert_is(design, images, pool_size, pools_per_image):
    """Checked from the matrix itself and not by the class."""
    matrix = design.dense().astype(np.float32)
    assert matrix.shape == (images * pools_per_image // pool_size, images)
    assert (matrix.sum(axis=1) == pool_size).all()
    assert (matrix.sum(axis=0) == pools_per_image).all()
    shared = matrix.T @ matrix
    np.fill_diagonal(shared, 0)
    assert shared.max() <= 1
    assert isinstance(design, PoolingDesign)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_known_sizes_are_built(size):
    assert_is(balanced_design(*size, seed=1), *size)


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 10), st.integers(1, 6), st.integers(1, 60), st.integers(0, 2**32))
def test_every_feasible_size_with_some_room_is_built(pool_size, pools_per_image, steps, seed):
    images = steps * pool_size // np.gcd(pool_size, pools_per_image)
    parameters = Parameters(int(images), pool_size, pools_per_image)
    assume(broken_bound(parameters) is None)
    # Room: half as much again as the counting bounds ask for. Closer to them some sizes are not found.
    assume(3 * pools_per_image * (pool_size - 1) <= 2 * (images - 1))
    assume(3 * pool_size * (pools_per_image - 1) <= 2 * (parameters.pool_count - 1))
    assert_is(balanced_design(*parameters, seed=seed), *parameters)


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9, 11])
def test_finite_planes_are_built_though_they_leave_no_room(order):
    for size in (
        (order**2 + order + 1, order + 1, order + 1),
        (order**2, order, order + 1),
        (order**2 + order, order + 1, order),
    ):
        pools = finite_plane(*size)
        assert_is(PoolingDesign(pools, size[0]), *size)
        assert_is(balanced_design(*size), *size)
    assert finite_plane(order**2 + order + 2, order + 1, order + 1) is None


@pytest.mark.parametrize("size", [(35, 5, 3), (64, 8, 8), (72, 8, 3), (729, 27, 20)])
def test_array_codes_exist_over_the_integers_or_a_field(size):
    assert_is(PoolingDesign(array_code(*size), size[0]), *size)


@pytest.mark.parametrize("size", [(36, 6, 4), (100, 8, 4), (18, 6, 4)])
def test_array_codes_that_do_not_exist_are_none(size):
    assert array_code(*size) is None


@pytest.mark.parametrize("size", [(100, 8, 4), (45, 5, 3), (90, 6, 4), (7, 3, 3)])
def test_quasi_cyclic_and_edge_switching_each_build_designs(size):
    for construction in (quasi_cyclic, edge_switching):
        pools = construction(*size, np.random.default_rng(5))
        assert_is(PoolingDesign(pools, size[0]), *size)


def test_edge_switching_gives_up_after_its_budget():
    assert edge_switching(57, 8, 8, np.random.default_rng(0), restarts=1, trades=1000) is None


@pytest.mark.parametrize("size", [(100, 8, 4), (104, 8, 4), (64, 8, 3), (13, 4, 4), (6, 3, 1)])
def test_a_seed_gives_one_design_and_other_seeds_give_others(size):
    designs = [balanced_design(*size, seed=seed) for seed in range(10)]
    assert designs == [balanced_design(*size, seed=seed) for seed in range(10)]
    assert len(set(designs)) == 10


@pytest.mark.parametrize(
    ("size", "fingerprint"),
    [
        ((100, 8, 4), "c6c097db16578bbe"),
        ((104, 8, 4), "834db6518b80ae2a"),
        ((64, 8, 3), "1e17ddf9a0e4f2d4"),
        ((13, 4, 4), "d865aeaaa9480ce1"),
    ],
)
def test_a_seed_gives_the_same_design_on_every_machine(size, fingerprint):
    # One size for each construction: quasi-cyclic, array code, array code over a field, plane.
    assert balanced_design(*size, seed=7).fingerprint[:16] == fingerprint


def test_edge_switching_is_the_same_on_every_machine():
    pools = edge_switching(100, 8, 4, np.random.Generator(np.random.PCG64(7)))
    assert PoolingDesign(pools, 100).fingerprint[:16] == "4a266d96825a1357"


def test_ten_thousand_images_take_little_memory():
    """The matrix alone would have 50 million entries."""
    tracemalloc.start()
    design = balanced_design(10_000, 8, 4)
    pools = edge_switching(10_000, 8, 4, np.random.default_rng(0))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert design.shape == (5000, 10_000)
    assert PoolingDesign(pools, 10_000).guarantees.max_shared == 1
    assert most < 20_000_000


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        ((100, 7, 4), r"m·r = n·c fails: 100 images × 4 pools per image = 400 .* no multiple of .* 7"),
        ((100, 20, 4), r"r\(c − 1\) ≤ m − 1 fails: 20·\(4 − 1\) = 60 > 19 = 20 − 1"),
        ((20, 4, 8), r"c\(r − 1\) ≤ n − 1 fails: 8·\(4 − 1\) = 24 > 19 = 20 − 1"),
        ((5, 8, 2), r"a pool of 8 needs at least 8 images, and there are 5"),
        ((24, 6, 3), r"r\(c − 1\) ≤ m − 1 fails: 6·\(3 − 1\) = 12 > 11"),
        ((2, 2, 2), r"c\(r − 1\) ≤ n − 1 fails"),
    ],
)
def test_infeasible_sizes_name_the_bound_and_choices_that_work(size, bound):
    with pytest.raises(ValueError, match=bound) as caught:
        balanced_design(*size)
    assert_advice_works(str(caught.value), size)


@pytest.mark.parametrize("size", [(43, 7, 7), (25, 4, 8), (108, 9, 7)])
def test_sizes_near_the_bounds_that_cannot_be_built_say_so_and_name_choices_that_work(size):
    # There is no projective plane of order 6; the others leave too little room for the search.
    with pytest.raises(ValueError, match=r"no balanced design found .* little room") as caught:
        balanced_design(*size)
    assert_advice_works(str(caught.value), size)


def assert_advice_works(message, size):
    advice = message.split("Nearby choices that work: ")[1]
    numbers = re.findall(r"images=(\d+), pool_size=(\d+), pools_per_image=(\d+)", advice)
    choices = [tuple(map(int, choice)) for choice in numbers]
    assert choices
    for choice in choices:
        assert choice != size
        assert_is(balanced_design(*choice), *choice)
    assert any(choice[1:] == size[1:] for choice in choices)


def test_the_nearest_number_of_images_is_suggested():
    with pytest.raises(
        ValueError, match=r"images=96, pool_size=8, pools_per_image=3.*images=104, pool_size=8"
    ):
        balanced_design(99, 8, 3)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 8, 4), "images=0 is not positive"),
        ((100, -1, 4), "pool_size=-1 is not positive"),
        ((100, 8, 0), "pools_per_image=0 is not positive"),
        ((100.0, 8, 4), "images=100.0 is not a whole number"),
        ((100, "8", 4), "pool_size='8' is not a whole number"),
    ],
)
def test_sizes_are_positive_whole_numbers(size, message):
    with pytest.raises(ValueError, match=message):
        balanced_design(*size)
