"""Estimates of precision and sensitivity: known answers, and how often their intervals hold the truth."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy import stats

from poolsieve.review.policy_quality import SampledClear, against, precision, sensitivity
from poolsieve.review.thresholds import DecidedImages, changes, suggested
from poolsieve.statistics import Estimate


def estimate(flagged, decided, bad, *clear, seed=0):
    return sensitivity(
        flagged, decided, bad, [SampledClear(*one) for one in clear], np.random.default_rng(seed)
    )


def test_sampled_images_count_for_what_they_stand_for():
    # 90 bad flags; 2 of 1,000 sampled at 1% and 1 of 500 at 10% are bad: 200 + 10 were missed.
    found = estimate(100, 100, 90, (100.0, 1000, 1000, 2), (10.0, 500, 500, 1))
    assert found.value == pytest.approx(90 / 300)
    assert found.low < found.value < found.high


def test_what_is_not_decided_yet_counts_like_what_is():
    assert estimate(200, 100, 90, (100.0, 1000, 500, 1)).value == pytest.approx(180 / 380)


def test_all_clear_images_looked_at_leave_nothing_to_guess():
    found = estimate(100, 100, 90, (1.0, 1000, 1000, 10))
    assert found == Estimate(0.9, pytest.approx(0.9), pytest.approx(0.9))


def test_without_decisions_nothing_is_known():
    assert math.isnan(estimate(10, 0, 0, (100.0, 10, 10, 0)).value)
    assert math.isnan(estimate(10, 10, 9).value)
    assert math.isnan(estimate(10, 10, 9, (100.0, 10, 0, 0)).value)


def test_no_miss_seen_is_no_proof_of_none():
    few, many = estimate(100, 100, 90, (100.0, 50, 50, 0)), estimate(100, 100, 90, (5.0, 1000, 1000, 0))
    assert few.value == many.value == 1.0
    assert few.low < many.low < 1.0


@cache
def interval(rates, seen, bad=900, decided=1100):
    clear = [SampledClear(1 / rate, 5000, 5000, misses) for rate, misses in zip(rates, seen, strict=True)]
    found = sensitivity(1100, decided, bad, clear, np.random.default_rng(1))
    return found.low, found.high


def coverage(expected, rates):
    """Probability that the interval holds the truth, by all samples with their probabilities."""
    missed = [round(number / rate) for number, rate in zip(expected, rates, strict=True)]
    truth, covered, total = 900 / (900 + sum(missed)), 0.0, 0.0
    chances = [stats.binom.pmf(np.arange(m + 1), m, rate) for m, rate in zip(missed, rates, strict=True)]
    for seen in product(*(np.flatnonzero(chance > 1e-4).tolist() for chance in chances)):
        chance = math.prod(chance[number] for chance, number in zip(chances, seen, strict=True))
        if chance > 1e-4:
            low, high = interval(rates, seen)
            covered += chance * (low <= truth <= high)
            total += chance
    return covered / total


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_the_interval_of_sensitivity_holds_the_truth_in_93_to_97_of_100_from_ten_expected_misses_on(rate):
    found = [coverage((expected,), (rate,)) for expected in (10, 11, 12.6, 14, 16.2, 19, 23, 30, 40)]
    assert min(found) >= 0.93 and max(found) <= 0.97, found


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_with_fewer_expected_misses_the_interval_of_sensitivity_is_on_the_safe_side(rate):
    found = [coverage((expected,), (rate,)) for expected in (0.2, 0.6, 1, 2, 3, 3.2, 3.6, 4.4, 5.2, 6, 8)]
    assert min(found) >= 0.94 and max(found) > 0.98, found


def test_below_two_and_a_third_expected_misses_no_interval_holds_the_truth_in_93_to_97_of_100():
    """Whatever numbers of misses an interval holds the truth for, they come too often or too seldom."""
    for expected in (0.15, 0.2, 0.5, 0.6, 1.0, 1.1, 1.6, 2.2, 2.28):
        below = np.concatenate([[0.0], stats.poisson.cdf(np.arange(30), expected)])
        between = below[None, :] - below[:, None]  # every run of numbers
        assert not ((between >= 0.93) & (between <= 0.97)).any(), expected


@pytest.mark.parametrize("rates", [(0.01, 0.05), (0.01, 0.2), (0.1, 0.5)])
def test_after_a_change_of_the_rate_it_does_so_from_ten_expected_misses_at_the_lower_one_on(rates):
    found = [coverage((lowest, other), rates) for lowest in (10, 13) for other in (1.0, 8.0)]
    assert min(found) >= 0.93 and max(found) <= 0.97, found
    assert coverage((1.0, 5.0), rates) >= 0.93


def drawn_coverage(missed, rates, flagged=1100, decided=1100):
    """The same from 1,500 drawn samples: of more rates, or where flags wait of which 900 in 1,100 are bad."""
    rng, held, truth = np.random.default_rng(2), [], 900 / (900 + sum(missed))
    for _ in range(1500):
        bad = int(rng.hypergeometric(900, flagged - 900, decided))
        low, high = interval(rates, tuple(rng.binomial(missed, rates).tolist()), bad, decided)
        held.append(low <= truth <= high)
    return np.mean(held)


def test_three_rates_and_flags_that_wait_change_that_little():
    assert 0.93 <= drawn_coverage([1200, 60, 20], (0.01, 0.05, 0.2)) <= 0.97
    assert 0.93 <= drawn_coverage([100], (0.1,), decided=300) <= 0.97


@pytest.mark.parametrize("decided", [30, 100, 400, 1000])
def test_the_interval_of_precision_holds_the_truth_in_93_to_97_of_100_from_ten_expected_false_flags_on(
    decided,
):
    """Exactly, by all outcomes with their probabilities; with fewer false flags in 91 to 100."""
    found = [precision(decided, bad) for bad in range(decided + 1)]
    low, high = np.array([one.low for one in found]), np.array([one.high for one in found])
    for false in (0.2, 0.5, 1, 2, 3, 5, 7, 10, 11.3, 13, 15, 20, 35, 50, 90, 150, 300, 450):
        share = 1 - false / decided
        if share < 0.5:
            continue
        held = stats.binom.pmf(np.arange(decided + 1), decided, share) @ ((low <= share) & (share <= high))
        assert (0.93 if false >= 10 else 0.91) <= held <= (0.97 if false >= 10 else 1.0), (false, held)


@pytest.mark.parametrize(
    ("promise", "found", "word"),
    [
        (0.95, Estimate(0.97, 0.96, 0.98), "kept"),
        (0.95, Estimate(0.90, 0.85, 0.94), "broken"),
        (0.95, Estimate(0.95, 0.90, 0.99), "cannot tell yet"),
        (0.95, Estimate(math.nan, math.nan, math.nan), "cannot tell yet"),
        (None, Estimate(0.97, 0.96, 0.98), "not promised"),
    ],
)
def test_a_promise_is_kept_broken_or_one_cannot_tell(promise, found, word):
    assert against(promise, found) == word


def decided(scores, bad, weight=1.0):
    return DecidedImages(
        np.array(scores, dtype=float), np.array(bad, dtype=bool), np.full(len(scores), float(weight))
    )


NONE = decided([], [])


def test_the_suggested_threshold_spares_flags_and_keeps_what_is_bad():
    flags = decided([0.9] * 400 + [0.6] * 300, [True] * 400 + [False] * 300)
    found = suggested(changes(flags, NONE, 0.5), 0.5, 400, math.nan, None)
    assert found.threshold == 0.6 and found.flags == pytest.approx(4 / 7) and found.kept == 1.0
    assert found.precision.value == 1.0 and 0.99 < found.kept_at_least < 1


def test_no_threshold_is_suggested_from_little_or_at_a_loss():
    lossy = decided(np.linspace(0.51, 0.99, 200), [True] * 200)
    assert suggested(changes(lossy, NONE, 0.5), 0.5, 200, math.nan, None) is None
    few = decided([0.9] * 20, [True] * 20)
    assert suggested(changes(few, NONE, 0.5), 0.5, 20, math.nan, None) is None
    assert changes(NONE, NONE, 0.5)[0].kept == 0.0


def test_below_the_promise_the_highest_lower_threshold_is_suggested_that_reaches_it():
    """90 of 180 bad images were flagged; nine sampled misses stand for 10 each, three were never tested."""
    flags = decided([0.9] * 90, [True] * 90)
    clear = decided(
        [0.42, 0.44, 0.31, 0.32, 0.33, 0.34] + [math.nan] * 3 + [0.36] * 2, [True] * 9 + [False] * 2, 10
    )
    options = changes(flags, clear, 0.5)
    at = {one.threshold: one for one in options}
    assert (at[0.4].caught, at[0.3].caught, at[0.05].caught) == (2, 6, 6)
    assert at[0.3].sensitivity == pytest.approx(150 / 180) and at[0.3].flags == pytest.approx(170 / 90)
    assert at[0.3].precision.value == pytest.approx(150 / 170)
    assert at[0.95].flags == 0 and at[0.95].sensitivity == 0
    measured = 90 / 180
    assert suggested(options, 0.5, 90, measured, 0.8).threshold == 0.3
    assert suggested(options, 0.5, 90, measured, 0.99).threshold == 0.3  # as near as it gets
    two = decided([0.45, 0.45], [True, True], 10)
    assert suggested(changes(flags, two, 0.5), 0.5, 90, 90 / 110, 0.95) is None
    mixed = decided([0.9] * 90 + [0.6] * 90, [True] * 90 + [False] * 90)
    assert suggested(changes(mixed, clear, 0.5), 0.5, 90, measured, 0.4).threshold == 0.6  # it is kept
    assert suggested(changes(mixed, clear, 0.5), 0.5, 90, measured, 0.8).threshold == 0.3


def test_flags_from_before_the_present_threshold_do_not_count():
    flags = decided([0.9] * 50 + [0.4] * 50, [True] * 100)
    assert changes(flags, NONE, 0.5)[0].flags == 1.0
