import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from poolsieve.evaluation.auc import area, area_gain


def drawn(rng, number=150):
    bad = np.repeat([0, 1], number)
    strangeness = rng.normal(size=2 * number) + bad
    return bad, strangeness + rng.normal(size=2 * number), strangeness + 0.7 * rng.normal(size=2 * number)


def test_area_is_that_of_the_curve_even_with_ties():
    bad, scores, other = drawn(np.random.default_rng(0))
    for values in (scores, np.round(scores), -scores):
        assert area(values, bad).value == pytest.approx(roc_auc_score(bad, values))
    gain = roc_auc_score(bad, scores) - roc_auc_score(bad, other)
    assert area_gain(scores, other, bad).value == pytest.approx(gain)


def test_intervals_are_as_wide_as_areas_of_new_draws_vary():
    rng = np.random.default_rng(1)
    draws = [drawn(rng) for _ in range(300)]
    for measure in (lambda b, s, o: area(s, b), lambda b, s, o: area_gain(s, o, b)):
        found = [measure(*draw) for draw in draws]
        spread = np.std([estimate.value for estimate in found])
        width = np.mean([estimate.high - estimate.low for estimate in found])
        assert width == pytest.approx(2 * 1.96 * spread, rel=0.12)


def test_showing_every_bad_image_four_times_tells_no_more():
    bad, scores, _ = drawn(np.random.default_rng(2))
    rows = np.concatenate([np.flatnonzero(bad == 0), np.repeat(np.flatnonzero(bad == 1), 4)])
    once, again = area(scores, bad), area(scores[rows], bad[rows], rows)
    assert (again.value, again.low, again.high) == pytest.approx((once.value, once.low, once.high))
    assert area(scores[rows], bad[rows]).low > once.low


def test_bad_input_is_said():
    with pytest.raises(ValueError, match="one score and one label"):
        area([1.0, 2.0], [0])
    with pytest.raises(ValueError, match="at least 2 of each"):
        area([1.0, 2.0, 3.0], [0, 0, 1])
