import numpy as np
import pytest
from scipy.stats import binomtest

from poolsieve.evaluation import detection
from poolsieve.evaluation.metrics import proportion


def test_independent_trials_get_wilsons_interval():
    found = proportion([8], [10])
    expected = binomtest(8, 10).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_sensitivity_and_specificity_by_hand():
    bad = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    flags = np.array([[1, 0, 1, 0], [1, 0, 0, 0]], dtype=bool)
    found = detection(flags, bad)
    assert found.sensitivity.value == pytest.approx(2 / 3) and found.sensitivity.total == 3
    assert found.specificity.value == pytest.approx(4 / 5) and found.specificity.total == 5


def test_nothing_to_measure_is_undefined_and_not_zero():
    found = detection(np.zeros((2, 3), bool), np.zeros((2, 3), bool))
    assert np.isnan(found.sensitivity.value) and str(found.sensitivity) == "undefined"
    assert found.specificity.value == 1.0 and found.specificity.high == 1.0


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


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        detection(np.zeros((2, 3), bool), np.zeros((2, 4), bool))
