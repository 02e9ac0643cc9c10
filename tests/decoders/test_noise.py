import numpy as np
import pytest

from poolsieve.decoders import CountNoise, LatentNoise
from poolsieve.designs import balanced_design

DESIGN = balanced_design(100, 8, 4, seed=0)


def test_accuracy_is_what_was_asked_for(study_noise):
    correct = np.diag(study_noise.confusion)
    np.testing.assert_allclose(correct[:8], [0.98, 0.95, 0.9] + 5 * [0.8], atol=1e-12)
    off_by_more = 1 - sum(np.diag(study_noise.confusion, k).sum() for k in (-1, 0, 1)) / 9
    assert off_by_more < 0.01


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("soft", [True, False])
def test_samples_follow_the_confusion_matrix(study_noise, soft, correlation):
    noise = study_noise if soft else CountNoise(study_noise.confusion)
    generator = np.random.default_rng(0)
    bad = generator.random((20_000, 100)) < 0.15
    readings = noise.sample(bad, DESIGN, generator, correlation=correlation)
    assert (readings.log_likelihoods is not None) == soft
    estimated = CountNoise.estimate(DESIGN.counts(bad), readings.counts, 8, smoothing=1e-6).confusion
    np.testing.assert_allclose(estimated[:5], study_noise.confusion[:5], atol=0.01)


def test_correlation_makes_an_image_fail_in_all_its_pools(study_noise):
    generator = np.random.default_rng(1)
    bad = np.zeros((40_000, 100), dtype=bool)
    bad[:, 0] = True
    pools = DESIGN.pools_of[0]

    def both_missed(correlation):
        readings = study_noise.sample(bad, DESIGN, generator, correlation=correlation)
        missed = readings.counts[:, pools] == 0
        return missed[:, :2].all(axis=1).mean(), missed.mean()

    independent, rate = both_missed(0.0)
    correlated, rate_correlated = both_missed(0.9)
    assert rate == pytest.approx(rate_correlated, abs=0.003)
    assert independent == pytest.approx(rate**2, abs=1e-3)
    assert correlated > 5 * independent


def test_estimate_smooths_what_was_never_seen():
    noise = CountNoise.estimate([0, 0, 1, 1], [0, 0, 1, 0], pool_size=3)
    assert (noise.confusion > 0).all()
    assert noise.confusion[3].argmax() == 3  # no pool with 3 was seen: a sensible guess
    assert noise.confusion[1, 0] > 0.3


def test_log_likelihoods_are_those_of_the_confusion_matrix():
    noise = CountNoise.nominal(8)
    np.testing.assert_allclose(np.exp(noise.log_likelihoods([[0, 1, 8]])[0, 1]), noise.confusion[:, 1])
    assert np.exp(CountNoise.none(2).log_likelihoods([2])).tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CountNoise(np.ones((2, 3))), "square"),
        (lambda: CountNoise([[0.5, 0.4], [0, 1]]), r"row 0 .* sums to 0\.9"),
        (lambda: CountNoise([[1.5, -0.5], [0, 1]]), r"confusion\[0, 0\] = 1\.5"),
        (lambda: CountNoise([[np.nan, 1], [0, 1]]), r"confusion\[0, 0\] = nan"),
        (lambda: CountNoise.estimate([0, 9], [0, 0], 8), r"true count 1 is 9; .* between 0 and 8"),
        (lambda: CountNoise.estimate([0], [0, 0], 8), "1 true counts, but 2 read"),
        (lambda: LatentNoise.from_accuracy((0.4,), 8), "between 0.5 and 1"),
        (lambda: CountNoise.none(8).log_likelihoods([[9]]), "cannot be read as 9"),
        (lambda: CountNoise.none(8).log_likelihoods([-1]), "cannot be read as -1"),
        (lambda: CountNoise.none(8).sample(np.full(100, 0.5), DESIGN, np.random.default_rng(0)), "0"),
        (lambda: LatentNoise.from_accuracy((0.6, 0.99), 8), "cannot be"),
        (lambda: LatentNoise.from_centres([0, 2, 1]), "ascending"),
        (lambda: CountNoise.none(4).sample(np.zeros(100), DESIGN, np.random.default_rng(0)), "pools of 4"),
    ],
)
def test_wrong_noise_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
