import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, binomtest

from poolsieve.statistics import exact_lower, exact_upper, mid_p, predicted_share, proportion
from poolsieve.statistics.proportions import EXACT

some_of_many = st.integers(1, 400).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@settings(deadline=None)
@given(some_of_many)
def test_independent_trials_get_wilsons_interval(numbers):
    found = proportion(*numbers)
    expected = binomtest(*numbers).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found.value, found.total) == (numbers[0] / numbers[1], numbers[1])


@settings(deadline=None)
@given(some_of_many)
def test_the_mid_p_interval_leaves_a_fortieth_to_a_twentieth_to_either_tail(numbers):
    won, tried = numbers
    found = mid_p(won, tried)
    assert found.low <= found.value == won / tried <= found.high
    if won:
        above = binom.sf(won, tried, found.low) + EXACT * binom.pmf(won, tried, found.low)
        assert 0.025 - 1e-9 <= above <= 0.05 + 1e-9
    if won < tried:
        below = binom.cdf(won - 1, tried, found.high) + EXACT * binom.pmf(won, tried, found.high)
        assert 0.025 - 1e-9 <= below <= 0.05 + 1e-9
    assert (found.low == 0) == (won == 0) and (found.high == 1) == (won == tried)


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 8, 13, 20, 60])
def test_the_mid_p_interval_holds_the_truth_in_91_of_100_cases_at_least(total):
    found = [mid_p(won, total) for won in range(total + 1)]
    low, high = np.array([one.low for one in found]), np.array([one.high for one in found])
    shares = np.linspace(0, 1, 2001)[:, None]
    held = (low <= shares) & (shares <= high)
    coverage = (binom.pmf(np.arange(total + 1), total, shares) * held).sum(axis=1)
    assert coverage.min() >= 1 - 0.05 / EXACT - 1e-9


@settings(deadline=None)
@given(st.lists(some_of_many, min_size=2, max_size=20))
def test_clusters_never_tell_more_than_independent_trials(clusters):
    won, tried = (np.array(part) for part in zip(*clusters, strict=True))
    found, independent = proportion(won, tried), proportion(won.sum(), tried.sum())
    assert found.value == independent.value
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high - found.low >= independent.high - independent.low - 1e-12


@pytest.mark.parametrize("rate", [0.9, 0.985])
@pytest.mark.parametrize("together", [False, True])
def test_intervals_cover_the_truth_also_when_errors_come_in_chunks(together, rate):
    """Over 400 experiments the 95% interval covers the true rate in about 95%."""
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        draws = generator.random((200, 1 if together else 10)) < rate
        won = draws.sum(axis=1) * (10 if together else 1)
        found = proportion(won, np.full(200, 10))
        covered += found.low <= rate <= found.high
    assert 0.91 <= covered / 400 <= 1.0


def test_without_a_failure_each_cluster_counts_once():
    assert proportion([10] * 8, [10] * 8).low == pytest.approx(proportion(8, 8).low)


def test_nothing_to_measure_is_undefined():
    assert not proportion([], []).defined and not proportion(0, 0).defined


@settings(deadline=None)
@given(some_of_many, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_exact_bounds_are_those_of_clopper_and_pearson(numbers, confidence):
    expected = binomtest(*numbers).proportion_ci(2 * confidence - 1, "exact")  # one side of 90% is 95%
    assert exact_upper(*numbers, confidence) == pytest.approx(expected.high)
    assert exact_lower(*numbers, confidence) == pytest.approx(expected.low)


def test_exact_bounds_of_tables_are_those_of_their_entries():
    table = np.array([[0, 1.5, 7], [20, 19.5, 3]])
    for bound in (exact_lower, exact_upper):
        one_by_one = [[float(bound(entry, 20, 0.95)) for entry in row] for row in table]
        assert bound(table, 20, 0.95) == pytest.approx(np.array(one_by_one))


@pytest.mark.parametrize(
    ("good", "seen", "others"), [(0, 50, 30), (290, 300, 40), (300, 300, 1), (7, 9, 5000)]
)
def test_predicted_share_is_beta_binomial(good, seen, others):
    law = betabinom(others, good + 0.5, seen - good + 0.5)
    low, high = predicted_share(good, seen, others)
    assert (low * others, high * others) == pytest.approx((law.ppf(0.025), law.ppf(0.975)))


def test_predicted_share_narrows_down_to_what_is_not_known_of_the_rate():
    few, many = predicted_share(90, 100, 30), predicted_share(90, 100, 1e9)
    assert few[0] < many[0] < 0.9 < many[1] < few[1]
