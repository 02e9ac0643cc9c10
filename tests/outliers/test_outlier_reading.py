"""Scores become likelihoods and counts; weights of density and logits follow what each is worth."""

import numpy as np
import pytest
from scipy.stats import norm

from poolsieve.outliers import OutlierReading, OutlierReadings, ScoreLikelihood, fit_mixture, make_reading
from poolsieve.outliers.score_counts import smooth_likelihood

WIDTH = 6


def pools(seed, number=300, outputs=4, noise=1.0):
    """Vectors that lie the further off the more off-topic images there are, and logits that know a little."""
    rng = np.random.default_rng(seed)
    counts = np.tile(np.arange(outputs), number)
    vectors = rng.normal(size=(len(counts), WIDTH)) + 2.0 * counts[:, None]
    logits = 2.0 * np.eye(outputs)[counts] + noise * rng.normal(size=(len(counts), outputs))
    return logits, vectors, counts


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(9)
    return fit_mixture(rng.normal(size=(500, WIDTH)), rng.normal(size=(200, WIDTH)), clusters=(1,)).mixture


def test_the_smoothed_histogram_is_the_likelihood_ratio():
    """Of two normal distributions of scores, whose true ratio is known."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 1, 4000), rng.normal(2, 1, 4000)])
    found = smooth_likelihood(scores, np.repeat([0, 1], 4000), 2)
    points = np.linspace(-1, 3, 9)
    table = found.log_likelihoods(points)
    truth = norm(2, 1).logpdf(points) - norm(0, 1).logpdf(points)
    np.testing.assert_allclose(table[:, 1] - table[:, 0], truth, atol=0.65)


def test_the_ratio_does_not_depend_on_the_scale_of_scores():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 1, 500), rng.normal(2, 1, 500)])
    counts = np.repeat([0, 1], 500)
    plain, bent = smooth_likelihood(scores, counts, 2), smooth_likelihood(np.exp(3 * scores), counts, 2)
    points = np.linspace(-1, 3, 9)
    one, other = plain.log_likelihoods(points), bent.log_likelihoods(np.exp(3 * points))
    np.testing.assert_allclose(one, other, atol=0.5)


def test_no_score_is_beyond_all_doubt():
    """A score far beyond all that were seen, or between two clouds, leaves every count possible."""
    scores = np.concatenate([np.linspace(0, 1, 50), np.linspace(100, 101, 50)])
    found = smooth_likelihood(scores, np.repeat([0, 1], 50), 2)
    table = found.log_likelihoods([-1e9, 0.5, 50.0, 100.5, 1e9])
    assert np.isfinite(table).all()
    assert (np.abs(table[:, 1] - table[:, 0]) < 7).all()
    assert table.argmax(axis=1)[[0, 1, 3, 4]].tolist() == [0, 0, 1, 1]


def test_equal_scores_say_nothing():
    found = smooth_likelihood(np.ones(6), [0, 0, 1, 1, 2, 2], 3)
    assert np.ptp(found.log_likelihoods([0.0, 1.0, 2.0]), axis=1).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="needs two scores"):
        smooth_likelihood(np.arange(4.0), [0, 0, 1, 1], 3)


def test_by_density_the_histogram_counts(mixture):
    logits, vectors, counts = pools(1)
    reading = make_reading(mixture, logits, vectors, counts, largest=2, combine=False, bins=50)
    combined, read = reading.read(-logits, vectors)  # logits play no part
    assert read.tolist() == reading.histogram.counts(mixture.scores(vectors)).tolist()
    assert read.max() == 2  # t, although pools held 3
    assert np.mean(read[counts <= 2] == counts[counts <= 2]) > 0.8
    np.testing.assert_allclose(
        combined, reading.likelihood.log_likelihoods(mixture.scores(vectors)), atol=1e-5
    )
    assert combined.shape == (len(counts), 4)  # likelihoods reach beyond t


def test_of_single_images_combined_logits_agree_with_the_label(mixture):
    logits, vectors, labels = pools(2, outputs=2)
    reading = make_reading(mixture, logits, vectors, labels, largest=1, combine=False)
    combined, read = reading.read(logits, vectors)
    assert (combined.argmax(axis=1) == read).all()
    assert 0 < read.sum() < len(read)


def test_what_is_worth_nothing_does_no_harm(mixture):
    """Vectors, or logits, that are noise leave the reading as good as the other is alone."""

    def accuracy(blind, deaf):
        found = []
        for seed in (3, 13):
            logits, vectors, counts = pools(seed)
            rng = np.random.default_rng(seed)
            vectors = rng.normal(size=vectors.shape) if blind else vectors
            logits = rng.normal(size=logits.shape) if deaf else logits
            found.append((logits, vectors, counts))
        made = make_reading(mixture, *found[0][:2], found[0][2], largest=3, combine=True)
        logits, vectors, counts = found[1]
        return made, np.mean(made.read(logits, vectors)[1] == counts), np.mean(logits.argmax(1) == counts)

    _, right, by_logits = accuracy(blind=True, deaf=False)
    assert right > by_logits - 0.02
    made, right, _ = accuracy(blind=False, deaf=True)
    assert made.logit_weight < 0.2
    assert right > 0.9


def test_together_they_count_better_than_either(mixture):
    logits, vectors, counts = pools(4, noise=1.5)
    both = make_reading(mixture, logits, vectors, counts, largest=3, combine=True)
    alone = make_reading(mixture, logits, vectors, counts, largest=3, combine=False)
    logits, vectors, counts = pools(5, noise=1.5)
    right = [np.mean(reading.read(logits, vectors)[1] == counts) for reading in (both, alone)]
    assert right[0] > right[1] + 0.01
    assert right[0] > np.mean(logits.argmax(axis=1) == counts) + 0.02


def test_a_stored_reading_reads_the_same_and_damage_is_refused(mixture):
    logits, vectors, counts = pools(6)
    counting = make_reading(mixture, logits, vectors, counts, largest=2, combine=True)
    images = pools(7, outputs=2)
    individual = make_reading(mixture, *images[:2], images[2], largest=1, combine=False)
    stored = OutlierReadings(individual, {3: counting}).to_bytes()
    again = OutlierReadings.from_bytes(stored)
    for one, other in ((individual, again.individual), (counting, again.counting[3])):
        table = logits[:, : one.outputs]
        for found, expected in zip(other.read(table, vectors), one.read(table, vectors), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="not a file of arrays"):
        OutlierReadings.from_bytes(b"nonsense")
    with pytest.raises(ValueError, match="pools of 5 is for 4 counts"):
        OutlierReadings(individual, {5: counting})
    arrays = counting.to_arrays()
    with pytest.raises(ValueError, match="no weights"):
        OutlierReading.from_arrays({name: value for name, value in arrays.items() if name != "weights"})
    with pytest.raises(ValueError, match="weights"):
        OutlierReading.from_arrays({**arrays, "weights": np.zeros(2)})


def test_numbers_that_are_not_finite_are_refused(mixture):
    logits, vectors, counts = pools(8, outputs=2)
    reading = make_reading(mixture, logits, vectors, counts, largest=1, combine=True)
    likelihood = ScoreLikelihood(reading.likelihood.knots, np.full_like(reading.likelihood.table, np.nan))
    broken = OutlierReading(mixture, reading.histogram, likelihood, 1.0, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        OutlierReadings.from_bytes(OutlierReadings(broken, {}).to_bytes())
