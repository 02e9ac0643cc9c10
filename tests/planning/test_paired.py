"""The bound of a loss that was seen on the same images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy
from scipy.stats import binomtest, norm

from poolsieve.planning.paired import images_needed, loss_bound

FINE = {"xatol": 1e-13}
NUMBERS = ((0, 0), (1, 0), (2, 5), (7, 1), (5, 5), (12, 15), (3, 0))


@pytest.mark.parametrize("images", [20, 150, 667])
def test_it_is_the_lower_one_of_the_exact_bounds_and_the_score_bound(images):
    for lost, gained in (*NUMBERS, (images, 0), (0, images)):
        most = binomtest(lost, images).proportion_ci(0.9, "exact").high  # one side of 90% is 95%
        fewest = binomtest(gained, images).proportion_ci(0.9, "exact").low
        expected = min(most - fewest, score_bound(lost + 0.75, gained, lost, images))
        found = loss_bound(lost / images, gained / images, images)
        assert found == pytest.approx(expected, abs=1e-6), (lost, gained)
        if not gained:
            assert found == pytest.approx(most, abs=1e-9)


def score_bound(corrected, gained, lost, images):
    """The difference that lies z standard errors above what was seen, by a likelihood held to it."""

    def excess(difference):
        def minus_log_likelihood(share):  # of images that are gained; those lost are so many more
            parts = (
                (lost, share + difference),
                (gained, share),
                (images - lost - gained, 1 - 2 * share - difference),
            )
            return -sum(xlogy(number, max(part, 1e-300)) for number, part in parts)

        most = (1 - difference) / 2
        low = max(0.0, -difference)
        share = minimize_scalar(minus_log_likelihood, bounds=(low, most), method="bounded", options=FINE).x
        spread = np.sqrt(images * (2 * share + difference - difference**2))
        return images * difference - (corrected - gained) - norm.ppf(0.95) * spread

    low = (corrected - gained) / images
    return 1.0 if low >= 1 or excess(1 - 1e-9) < 0 else brentq(excess, max(low, -1 + 1e-9), 1 - 1e-9)


@pytest.mark.parametrize(
    ("lost", "gained"), [(0.0, 0.01), (0.01, 0.0), (0.012, 0.01), (0.03, 0.02), (0.1, 0.05), (0.3, 0.3)]
)
@pytest.mark.parametrize("images", [30, 100, 667])
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
        assert lost >= allowed * 0.98
