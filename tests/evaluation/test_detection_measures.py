import numpy as np
import pytest

from poolsieve.evaluation import detection


def test_sensitivity_and_specificity_by_hand():
    bad = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
    flags = np.array([[1, 0, 1, 0], [1, 0, 0, 0]], dtype=bool)
    found = detection(flags, bad)
    assert found.sensitivity.value == pytest.approx(2 / 3) and found.sensitivity.total == 3
    assert found.specificity.value == pytest.approx(4 / 5) and found.specificity.total == 5
    assert found.precision.value == pytest.approx(2 / 3) and found.precision.total == 3


def test_nothing_to_measure_is_undefined_and_not_zero():
    found = detection(np.zeros((2, 3), bool), np.zeros((2, 3), bool))
    assert np.isnan(found.sensitivity.value) and str(found.sensitivity) == "undefined"
    assert found.specificity.value == 1.0 and found.specificity.high == 1.0


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        detection(np.zeros((2, 3), bool), np.zeros((2, 4), bool))
