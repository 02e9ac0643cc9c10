import math
from dataclasses import asdict

import pytest
from scipy.stats import norm

from poolsieve.schemes import Prevalence
from poolsieve.statistics import Z95, Estimate, Proportion


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_a_normal_interval_is_that_of_the_normal_distribution(confidence):
    found = Estimate.normal(3.0, 4.0, confidence=confidence)
    assert (found.low, found.high) == pytest.approx(norm(3, 2).interval(confidence))
    assert found.value == 3.0


def test_the_constant_is_that_of_95_percent():
    assert pytest.approx(norm.ppf(0.975)) == Z95


def test_intervals_end_where_values_do_but_the_value_stays():
    assert Estimate(0.9, 0.7, 1.2).clipped(0, 1) == Estimate(0.9, 0.7, 1.0)
    assert Estimate(0.1, -0.2, 0.3).clipped(0, 1) == Estimate(0.1, 0.0, 0.3)


def test_one_format_is_for_all_three_numbers():
    found = Estimate(0.125, 0.1, 0.15)
    assert f"{found}" == str(found) == "0.1250 [0.1000, 0.1500]"
    assert f"{found:+.2%}" == "+12.50% [+10.00%, +15.00%]"


def test_a_prevalence_is_an_estimate_in_percent():
    found = Prevalence(0.0123, 0.01, 0.02)
    assert f"{found}" == str(found) == "1.23% [1.00%, 2.00%]"
    assert asdict(found) == {"value": 0.0123, "low": 0.01, "high": 0.02}  # as it stands in files


def test_what_was_not_measured_is_undefined_however_it_is_written():
    nothing = Proportion(math.nan, math.nan, math.nan, 0)
    assert not nothing.defined and Estimate(0.0, 0.0, 0.0).defined
    assert f"{nothing}" == f"{nothing:.2%}" == str(nothing) == "undefined"


def test_tables_have_a_column_for_each_number():
    columns = Proportion(0.5, 0.25, 0.75, 8).columns("precision")
    assert columns == {"precision": 0.5, "precision_low": 0.25, "precision_high": 0.75}
