import numpy as np
import pytest

from poolsieve.decoders import LatentNoise
from poolsieve.designs import balanced_design, disjoint_design
from poolsieve.schemes import PrevalenceEstimator

NOISE = LatentNoise.from_accuracy((0.98, 0.95, 0.90, 0.80), pool_size=8)


def estimate(design, prevalence, chunks, seed):
    rng = np.random.default_rng(seed)
    bad = rng.random((chunks, design.images)) < prevalence
    readings = NOISE.sample(bad, design, rng)
    estimator = PrevalenceEstimator()
    for table in readings.log_likelihoods:
        estimator.add(table, design.pool_sizes, design.images / design.pool_sizes.sum())
    return estimator.estimate(), bad.mean()


@pytest.mark.parametrize("prevalence", [0.002, 0.01, 0.1])
@pytest.mark.parametrize(
    "design", [disjoint_design(96, 8), balanced_design(100, 8, 2)], ids=["disjoint", "balanced"]
)
def test_the_interval_covers_the_truth_about_as_often_as_it_says(prevalence, design):
    covered = 0
    for seed in range(40):
        found, _ = estimate(design, prevalence, 20, seed)
        assert found.low <= found.value <= found.high
        covered += found.low <= prevalence <= found.high
    assert covered >= 34


def test_no_bad_images_at_all_gives_an_interval_from_zero():
    design = disjoint_design(96, 8)
    found, _ = estimate(design, 0.0, 20, 0)
    assert found.low == 0
    assert found.value < 0.001
    assert 0.0005 < found.high < 0.01


def test_single_images_and_short_pools_count_too():
    sure = np.array([[0.0, -20.0]] * 90 + [[-20.0, 0.0]] * 10)
    estimator = PrevalenceEstimator()
    estimator.add(sure, np.ones(100, dtype=int))
    found = estimator.estimate()
    assert found.value == pytest.approx(0.1, rel=0.05)
    assert found.low == pytest.approx(0.05, abs=0.015)  # likelihood interval of 10 of 100: .051 to .168
    assert found.high == pytest.approx(0.168, abs=0.015)
    assert str(found).endswith("%]")


def test_nothing_gives_no_estimate():
    assert PrevalenceEstimator().estimate() is None
