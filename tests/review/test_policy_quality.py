"""Estimates of precision and sensitivity: known answers, and how often their intervals hold the truth."""

import math

import numpy as np
import pytest
from scipy import stats

from poolsieve.review.policy_quality import SampledClear, against, precision, sensitivity
from poolsieve.review.thresholds import changes, suggested
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


def coverage(missed, rate, flagged=1100, decided=1100, bad=900):
    """Probability that the interval holds the truth, by all samples with their probabilities."""
    truth, rng, covered = bad / (bad + missed), np.random.default_rng(1), 0.0
    flags = np.arange(decided + 1)
    probability = stats.hypergeom.pmf(flags, flagged, bad, decided)
    # Where flags wait, so many of their outcomes as stand for all.
    chosen = [bad] if decided == flagged else rng.choice(flags, 20, p=probability)
    for seen in range(missed + 1):
        if (chance := stats.binom.pmf(seen, missed, rate)) < 1e-5:
            continue
        clear = [SampledClear(1 / rate, 5000, 5000, seen)]
        found = [sensitivity(flagged, decided, int(rejected), clear, rng) for rejected in chosen]
        covered += chance * np.mean([one.low <= truth <= one.high for one in found])
    return covered


@pytest.mark.parametrize("rate", [0.01, 0.2])
@pytest.mark.parametrize("expected", [0.5, 3, 3.6, 7, 8.5, 20])
def test_the_interval_of_sensitivity_holds_the_truth_in_at_least_93_of_100(expected, rate):
    """And at most 97.5 from seven expected misses on; with fewer, counts are too lumpy for any interval."""
    found = coverage(round(expected / rate), rate)
    assert 0.93 <= found <= (0.975 if expected >= 7 else 1.0), found


@pytest.mark.parametrize("expected", [(0.5, 0.5), (0.5, 5), (1, 10), (5, 5)])
def test_the_interval_of_sensitivity_holds_the_truth_when_the_rate_was_changed(expected):
    rates, rng = (0.01, 0.2), np.random.default_rng(1)
    missed = [round(number / rate) for number, rate in zip(expected, rates, strict=True)]
    truth, covered = 900 / (900 + sum(missed)), 0.0
    for seen in np.ndindex(25, 25):
        chance = float(np.prod(stats.binom.pmf(seen, missed, rates)))
        if chance > 1e-4:
            clear = [SampledClear(1 / rate, 5000, 5000, one) for rate, one in zip(rates, seen, strict=True)]
            found = sensitivity(1100, 1100, 900, clear, rng)
            covered += chance * (found.low <= truth <= found.high)
    assert covered >= 0.93


@pytest.mark.parametrize(("missed", "rate"), [(100, 0.1)])
def test_flags_that_wait_widen_the_interval_of_sensitivity_as_they_should(missed, rate):
    assert 0.93 <= coverage(missed, rate, flagged=1100, decided=300) <= 0.975


@pytest.mark.parametrize(("decided", "share"), [(50, 0.7), (100, 0.9), (300, 0.95), (1000, 0.5), (400, 0.8)])
def test_the_interval_of_precision_holds_the_truth_in_93_to_97_of_100(decided, share):
    """Exactly, by all outcomes with their probabilities."""
    outcomes = np.arange(decided + 1)
    holds = [found.low <= share <= found.high for found in (precision(decided, int(bad)) for bad in outcomes)]
    assert 0.93 <= stats.binom.pmf(outcomes, decided, share) @ holds <= 0.97


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


def test_the_suggested_threshold_spares_flags_and_keeps_what_is_bad():
    scores = np.concatenate([np.full(400, 0.9), np.full(300, 0.6)])
    bad = np.arange(700) < 400
    options = changes(scores, bad, 0.5)
    found = suggested(options, 400)
    assert found.threshold == 0.65 and found.flags == pytest.approx(4 / 7) and found.kept == 1.0
    assert found.precision.value == 1.0 and 0.99 < found.kept_at_least < 1


def test_no_threshold_is_suggested_from_little_or_at_a_loss():
    scores, bad = np.linspace(0.5, 0.99, 200), np.ones(200, dtype=bool)
    assert suggested(changes(scores, bad, 0.5), 200) is None
    assert suggested(changes(np.full(20, 0.9), np.ones(20, dtype=bool), 0.5), 20) is None
    assert changes(np.empty(0), np.empty(0, dtype=bool), 0.5)[0].kept == 0.0
