import numpy as np
import pytest
from scipy.special import log_softmax

from poolsieve.decoders import Readings, remove_training_prior
from poolsieve.designs import balanced_design

DESIGN = balanced_design(24, pool_size=4, pools_per_image=3, seed=1)


def test_one_chunk_may_be_given_flat():
    assert Readings(np.zeros(18, int)).counts.shape == (1, 18)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (np.zeros((2, 3, 4)), r"shape \(chunks, pools\)"),
        (np.array([[0, 1.5]]), r"counts\[0, 1\] = 1\.5; counts must be whole"),
        (np.array([[0, np.nan]]), r"counts\[0, 1\] = nan"),
        (np.array([["a", "b"]]), "whole numbers"),
    ],
)
def test_wrong_counts_say_where(counts, message):
    with pytest.raises(ValueError, match=message):
        Readings(counts)


def test_counts_outside_the_pool_say_where():
    counts = np.zeros((3, DESIGN.pool_count), int)
    counts[2, 5] = 5
    with pytest.raises(ValueError, match=r"counts\[2, 5\] = 5; a pool of 4 images holds 0 to 4"):
        Readings(counts).check(DESIGN)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_unusable_likelihoods_say_where(value):
    table = np.zeros((2, 3, 5))
    table[1, 2, 4] = value
    with pytest.raises(ValueError, match=r"log_likelihoods\[1, 2, 4\] is (nan|inf)"):
        Readings(np.zeros((2, 3), int), table)


def test_a_pool_that_nothing_explains_is_refused():
    table = np.zeros((1, 3, 5))
    table[0, 1] = -np.inf
    with pytest.raises(ValueError, match=r"log_likelihoods\[0, 1\] is −inf for every count"):
        Readings.soft(table)


def test_likelihoods_must_match_the_counts_in_shape():
    with pytest.raises(ValueError, match=r"match counts of shape \(2, 3\), not \(2, 4, 5\)"):
        Readings(np.zeros((2, 3), int), np.zeros((2, 4, 5)))


def test_soft_readings_report_the_most_likely_count():
    table = np.log([[[0.1, 0.7, 0.2], [0.4, 0.4, 0.2]]])
    assert Readings.soft(table).counts.tolist() == [[1, 0]]


def test_binary_readings_leave_the_count_open():
    readings = Readings.from_binary(np.log([[[0.9, 0.1], [0.2, 0.8]]]), pool_size=3)
    np.testing.assert_allclose(
        np.exp(readings.log_likelihoods[0]), [[0.9, 0.1, 0.1, 0.1], [0.2, 0.8, 0.8, 0.8]]
    )
    assert readings.counts.tolist() == [[0, 1]]


def test_removing_the_training_prior_is_bayes_rule():
    generator = np.random.default_rng(0)
    likelihood = generator.random((6, 9))
    prior = np.array([40, 24, 12, 6, 6, 3, 3, 3, 3]) / 100
    posterior = likelihood * prior / (likelihood * prior).sum(axis=1, keepdims=True)
    logits = np.log(posterior) + generator.normal(size=(6, 1))  # a softmax ignores constants
    recovered = remove_training_prior(logits, prior)
    np.testing.assert_allclose(log_softmax(recovered, axis=1), log_softmax(np.log(likelihood), axis=1))


def test_a_count_that_was_never_trained_is_refused():
    with pytest.raises(ValueError, match="above zero for every count"):
        remove_training_prior(np.zeros((2, 3)), [0.5, 0.5, 0.0])
