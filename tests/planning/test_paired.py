"""The bound of a loss that was seen on the same images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from poolsieve.planning.paired import images_needed, loss_bound


@pytest.mark.parametrize("images", [20, 150, 667])
def test_it_is_made_of_the_exact_bounds_of_both(images):
    for lost, gained in ((0, 0), (1, 0), (2, 5), (7, 1), (images, 0), (0, images)):
        most = binomtest(lost, images).proportion_ci(0.9, "exact").high  # one side of 90% is 95%
        fewest = binomtest(gained, images).proportion_ci(0.9, "exact").low
        assert loss_bound(lost / images, gained / images, images) == pytest.approx(most - fewest)


@pytest.mark.parametrize(
    ("lost", "gained"), [(0.0, 0.01), (0.01, 0.0), (0.03, 0.02), (0.1, 0.05), (0.3, 0.3)]
)
@pytest.mark.parametrize("images", [30, 100, 500])
def test_it_lies_above_the_true_loss_in_95_of_100_cases(lost, gained, images):
    rng = np.random.default_rng(images)
    seen = rng.multinomial(images, [lost, gained, 1 - lost - gained], 4000) / images
    covered = loss_bound(seen[:, 0], seen[:, 1], images) >= lost - gained - 1e-12
    assert covered.mean() >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 4000)


@given(st.integers(1, 2000), st.floats(0, 1), st.floats(0, 1))
def test_it_is_above_what_was_seen_and_falls_with_more_images(images, one, other):
    lost, gained = one / 2, other / 2
    bound = float(loss_bound(lost, gained, images))
    assert lost - gained - 1e-9 <= bound <= 1
    assert float(loss_bound(lost, gained, 4 * images)) <= bound + 1e-9


@given(st.floats(0, 0.02), st.floats(0.001, 0.1))
def test_so_many_images_are_enough_and_fewer_are_not(lost, allowed):
    number = images_needed(lost, 0.0, allowed)
    if np.isfinite(number):
        assert loss_bound(lost, 0.0, number) <= allowed
        assert number < 2 or loss_bound(lost, 0.0, number - 2) > allowed
    else:
        assert lost >= allowed * 0.99
