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
    assert few.value == many.value == few.high == many.high == 1.0
    assert few.low < many.low < 1.0


OCTAVES = ((0.5, 1.0), (1.0, 2.0), (2.0, 5.0), (5.0, 10.0))
"""Of expected misses or false flags. Counts are whole numbers: with so few no interval holds the truth as
often wherever it lies, and one asks for the mean (Brown, Cai and DasGupta 2001)."""


def test_below_two_and_a_third_expected_misses_no_interval_holds_every_truth_in_93_to_97_of_100():
    """Whatever numbers of misses an interval holds the truth for, they come too often or too seldom."""
    for expected in (0.15, 0.2, 0.5, 0.6, 1.0, 1.1, 1.6, 2.2, 2.28):
        below = np.concatenate([[0.0], stats.poisson.cdf(np.arange(30), expected)])
        between = below[None, :] - below[:, None]  # every run of numbers
        assert not ((between >= 0.93) & (between <= 0.97)).any(), expected


def assert_about_95(coverage, unit=0.0):
    """In the mean of each octave in 93 to 97 of 100 cases, and nowhere in less than 91.

    Args:
        coverage: Probability that the interval holds the truth, as a function of the expected number.
        unit: Expected numbers are multiples of this.
    """
    for few, many in OCTAVES:
        expected = np.linspace(few, many, 40)
        if unit:
            whole = np.linspace(math.ceil(few / unit), math.floor(many / unit), 40).round()
            expected = np.unique(whole) * unit
        found = [coverage(one) for one in expected]
        assert 0.93 <= np.mean(found) <= 0.97 and min(found) >= 0.91, (few, np.mean(found), min(found))


@pytest.mark.parametrize("decided", [30, 100, 400, 1000])
def test_the_interval_of_precision_holds_the_truth_in_about_95_of_100(decided):
    """Exactly, by all outcomes with their probabilities; also where the bad flags are few."""
    found = [precision(decided, bad) for bad in range(decided + 1)]
    low, high = np.array([one.low for one in found]), np.array([one.high for one in found])

    def coverage(false):
        share = 1 - false / decided
        return stats.binom.pmf(np.arange(decided + 1), decided, share) @ ((low <= share) & (share <= high))

    assert_about_95(coverage)
    assert_about_95(lambda bad: coverage(decided - bad))
    many = [coverage(false) for false in np.linspace(10, decided - 10, 400)]
    assert min(many) >= 0.93 and max(many) <= 0.97


@cache
def interval(found, rates, seen):
    clear = [SampledClear(1 / rate, 5000, 5000, number) for rate, number in zip(rates, seen, strict=True)]
    told = sensitivity(found, found, found, clear, np.random.default_rng(sum(seen)))
    return told.low, told.high


def coverage_of_sensitivity(found, expected, rates):
    """Probability that the interval holds the truth, by all samples with their probabilities.

    Args:
        found: Bad images that were flagged.
        expected: Misses expected in the sample, for each rate.
        rates: The rates.
    """
    missed = np.divide(expected, rates).round().astype(int)
    truth, covered, total = found / (found + missed.sum()), 0.0, 0.0
    each = [stats.binom.pmf(np.arange(m + 1), m, rate) for m, rate in zip(missed, rates, strict=True)]
    for seen in product(*(np.flatnonzero(one > 1e-5).tolist() for one in each)):
        probability = math.prod(one[number] for one, number in zip(each, seen, strict=True))
        if probability > 2e-5:
            low, high = interval(found, rates, seen)
            covered += probability * (low <= truth <= high)
            total += probability
    assert total > 0.995  # the rest is far out, where the interval does not hold the truth
    return covered


@pytest.mark.parametrize(("rate", "found"), [(0.01, 8000), (0.05, 2000), (0.2, 500)])
def test_the_interval_of_sensitivity_holds_the_truth_in_about_95_of_100(rate, found):
    """At sensitivities of .995, with half a miss expected in the sample, to .8, with twenty."""
    assert_about_95(lambda expected: coverage_of_sensitivity(found, (expected,), (rate,)), unit=rate)
    many = [coverage_of_sensitivity(found, (expected,), (rate,)) for expected in np.arange(10, 20, 0.2)]
    assert min(many) >= 0.93 and round(max(many), 3) <= 0.97


@pytest.mark.parametrize(
    ("rates", "first"), [((0.01, 0.05), 0.1), ((0.01, 0.05), 0.5), ((0.01, 0.2), 0.02), ((0.01, 0.2), 0.9)]
)
def test_after_a_change_of_the_rate_it_does_so_too(rates, first):
    """`first` of the misses came at the first rate; they are counted as Kish's effective number."""
    each = np.array([first, 1 - first]) * rates
    each /= np.sum(each / rates) ** 2 / np.sum(each / np.square(rates))
    for few, many in OCTAVES:
        found = [coverage_of_sensitivity(4000, one * each, rates) for one in np.linspace(few, many, 4)]
        assert 0.93 <= np.mean(found) <= 0.975 and min(found) >= 0.91, (few, found)
    found = [coverage_of_sensitivity(4000, one * each, rates) for one in (10, 15)]
    # Where hardly a miss is expected at the lower rate it has to allow for one that stands for many.
    assert min(found) >= 0.93 and max(found) <= (0.97 if 10 * each[0] >= 1 else 0.98), found


@pytest.mark.parametrize(("flagged", "decided", "bad"), [(1100, 300, 900), (300, 30, 150)])
def test_flags_that_wait_leave_it_at_that(flagged, decided, bad):
    """By equally likely numbers of bad flags among those decided, and all numbers of misses seen."""
    rate, missed = 0.2, 60
    truth, covered = bad / (bad + missed), 0.0
    for rank in range(9):
        rejected = int(stats.hypergeom.ppf((rank + 0.5) / 9, flagged, bad, decided))
        for seen in range(3, 24):
            told = estimate(flagged, decided, rejected, (1 / rate, 5000, 5000, seen))
            covered += stats.binom.pmf(seen, missed, rate) * (told.low <= truth <= told.high) / 9
    assert 0.93 <= covered <= 0.97


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
