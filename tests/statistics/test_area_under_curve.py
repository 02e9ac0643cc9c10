import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from poolsieve.statistics import auc, auc_difference, auc_estimate, auc_from_counts

labelled = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.booleans()), min_size=4, max_size=60)
labelled = labelled.map(lambda rows: [*rows, (0, 0, True), (1, 2, True), (0, 1, False), (2, 0, False)])


def drawn(rng, number=150):
    bad = np.repeat([0, 1], number)
    strangeness = rng.normal(size=2 * number) + bad
    return bad, strangeness + rng.normal(size=2 * number), strangeness + 0.7 * rng.normal(size=2 * number)


@settings(deadline=None)
@given(labelled)
def test_it_is_the_area_of_others_also_with_ties(rows):
    scores, other, bad = (np.array(part) for part in zip(*rows, strict=True))
    u = mannwhitneyu(scores[bad], scores[~bad]).statistic
    assert auc(scores, bad) == pytest.approx(u / (bad.sum() * (~bad).sum()))
    assert auc(scores, bad) == pytest.approx(roc_auc_score(bad, scores))
    assert auc_estimate(scores, bad).value == pytest.approx(auc(scores, bad))
    gain = auc(scores, bad) - auc(other, bad)
    assert auc_difference(scores, other, bad).value == pytest.approx(gain, abs=1e-12)


@settings(deadline=None)
@given(labelled, st.data())
def test_a_weight_is_as_good_as_showing_it_so_often(rows, data):
    scores, other, bad = (np.array(part) for part in zip(*rows, strict=True))
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(bad), max_size=len(bad))))
    times[-4:] = 1
    again = np.repeat(np.arange(len(bad)), times)
    weighted = auc_difference(scores, other, bad, weights=times)
    repeated = auc_difference(scores[again], other[again], bad[again], groups=again)
    assert (weighted.value, weighted.low, weighted.high) == pytest.approx(
        (repeated.value, repeated.low, repeated.high), abs=1e-9
    )
    expected = roc_auc_score(bad, scores, sample_weight=times) - roc_auc_score(
        bad, other, sample_weight=times
    )
    assert weighted.value == pytest.approx(expected, abs=1e-9)


def test_the_variance_is_that_of_delong_by_hand():
    """Bad 1, 3 and good 0, 2: placements 1/2 and 1 of the bad, 1 and 1/2 of the good ones."""
    found = auc_estimate([1.0, 3.0, 0.0, 2.0], [1, 1, 0, 0])
    half = 1.959964 * math.sqrt(0.125 / 2 + 0.125 / 2)
    assert (found.value, found.low, found.high) == pytest.approx((0.75, 0.75 - half, 1.0))


def test_intervals_are_as_wide_as_areas_of_new_draws_vary():
    rng = np.random.default_rng(1)
    draws = [drawn(rng) for _ in range(300)]
    for measure in (lambda b, s, o: auc_estimate(s, b), lambda b, s, o: auc_difference(s, o, b)):
        found = [measure(*draw) for draw in draws]
        spread = np.std([estimate.value for estimate in found])
        width = np.mean([estimate.high - estimate.low for estimate in found])
        assert width == pytest.approx(2 * 1.96 * spread, rel=0.12)


def test_less_confidence_is_a_narrower_interval():
    bad, scores, other = drawn(np.random.default_rng(3))
    wide, narrow = (auc_difference(scores, other, bad, confidence=share) for share in (0.95, 0.9))
    assert (wide.high - wide.value) / (narrow.high - narrow.value) == pytest.approx(1.959964 / 1.644854)


def test_showing_every_bad_image_four_times_tells_no_more():
    bad, scores, _ = drawn(np.random.default_rng(2))
    rows = np.concatenate([np.flatnonzero(bad == 0), np.repeat(np.flatnonzero(bad == 1), 4)])
    once, again = auc_estimate(scores, bad), auc_estimate(scores[rows], bad[rows], groups=rows)
    assert (again.value, again.low, again.high) == pytest.approx((once.value, once.low, once.high))
    assert auc_estimate(scores[rows], bad[rows]).low > once.low


def test_counts_alone_give_about_the_same_interval():
    bad, scores, _ = drawn(np.random.default_rng(4), 2000)
    known = auc_estimate(scores, bad)
    found = auc_from_counts(known.value, 2000, 2000)
    assert found.value == known.value
    assert found.high - found.low == pytest.approx(known.high - known.low, rel=0.1)


def test_hanley_and_mcneils_example():
    """Their table II: area .893 of 58 normal and 51 abnormal images has the standard error .032."""
    found = auc_from_counts(0.893, 51, 58)
    assert (found.high - found.value) / 1.96 == pytest.approx(0.032, abs=0.001)
    assert auc_from_counts(1.0, 5, 5).high == 1.0


def test_bad_input_is_said():
    with pytest.raises(ValueError, match="one score and one label"):
        auc([1.0, 2.0], [0])
    with pytest.raises(ValueError, match="0 bad and 2 good ones; at least 1 of each"):
        auc([1.0, 2.0], [0, 0])
    with pytest.raises(ValueError, match="1 of 2 scores are no numbers"):
        auc([1.0, np.nan], [0, 1])
    with pytest.raises(ValueError, match="at least 2 of each"):
        auc_estimate([1.0, 2.0, 3.0], [0, 0, 1])
    with pytest.raises(ValueError, match="weight 0"):
        auc_difference([1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 1, 1], weights=[0, 0, 1, 1])
