"""The density is the one that the arrays say, also far away and in part of the dimensions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from poolsieve.outliers import GaussianMixture, fit_mixture


def blobs(seed, number=400, width=5):
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(0).normal(size=(width, width))
    return np.concatenate(
        [rng.normal(size=(number, width)) @ shape, 6 + rng.normal(size=(number, width)) @ shape.T]
    )


def density_by_scipy(mixture, points):
    """Weight, mean (D,) and covariance (D, D) of every Gaussian, written out in the space of the vectors."""
    names = ("center", "scale", "directions", "weights", "means", "factors")
    center, scale, directions, weights, means, factors = (
        getattr(mixture, name).astype(np.float64) for name in names
    )
    beside = np.eye(len(center)) - directions.T @ directions
    total = 0.0
    for j, weight in enumerate(weights):
        factor = factors[min(j, len(factors) - 1)]
        inner = np.diag(1 / np.square(factor)) if factor.ndim == 1 else np.linalg.inv(factor @ factor.T)
        covariance = directions.T @ inner @ directions + mixture.rest * beside
        mean = center + scale * (means[j] @ directions)
        total = total + weight * multivariate_normal(mean, covariance * np.outer(scale, scale)).pdf(points)
    return np.log(total)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
@pytest.mark.parametrize("dimensions", [2, 5])
def test_the_density_is_that_of_scipys_normal_distributions(covariance, dimensions):
    found = fit_mixture(
        blobs(1), blobs(2), clusters=(3,), covariances=(covariance,), dimensions=(dimensions,)
    )
    mixture = found.mixture
    assert (mixture.covariance, mixture.clusters, mixture.dimensions) == (covariance, 3, dimensions)
    points = np.concatenate([blobs(3)[::40], np.zeros((1, 5))])
    np.testing.assert_allclose(mixture.log_density(points), density_by_scipy(mixture, points), rtol=1e-5)


def test_one_known_gaussian():
    mixture = GaussianMixture(
        np.zeros(2), np.ones(2), np.eye(2), 1.0, np.ones(1), np.array([[1.0, 2.0]]), np.array([[2.0, 0.5]])
    )
    expected = multivariate_normal([1, 2], np.diag([0.25, 4.0])).logpdf([[0, 0], [1, 2]])
    np.testing.assert_allclose(mixture.log_density([[0, 0], [1, 2]]), expected, rtol=1e-12)


def test_the_density_integrates_to_one_with_a_rest():
    """Of three dimensions the Gaussians differ in one; the other two share a variance."""
    rng = np.random.default_rng(5)
    found = fit_mixture(
        rng.normal(size=(300, 3)) * [3, 1, 0.5], rng.normal(size=(99, 3)) * [3, 1, 0.5], dimensions=(1,)
    )
    axis = np.linspace(-20, 20, 81)
    grid = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    total = np.exp(found.mixture.log_density(grid)).sum() * (axis[1] - axis[0]) ** 3
    assert total == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
def test_scores_far_away_are_finite_and_grow(distance):
    mixture = fit_mixture(blobs(1), blobs(2), dimensions=(2,)).mixture
    direction = np.ones((1, 5)) / np.sqrt(5)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        near, far = (float(mixture.scores(direction * d)[0]) for d in (distance, 2 * distance))
    assert np.isfinite([near, far]).all()
    assert far > near > distance


def test_held_out_vectors_find_the_number_of_clusters():
    def three(seed, number):
        rng = np.random.default_rng(seed)
        centres = np.zeros((3, 40))
        centres[:, :3] = 8 * np.eye(3)
        return centres[rng.integers(3, size=number)] + 0.3 * rng.normal(size=(number, 40))

    assert fit_mixture(three(1, 900), three(2, 300), clusters=(1, 2, 3, 6)).mixture.clusters == 3


def test_held_out_vectors_find_the_number_of_directions():
    """Vectors that vary along 8 directions of 60, and a little along all: densities over all 60 compare."""
    mixing = np.random.default_rng(0).normal(size=(8, 60))

    def vectors(seed):
        rng = np.random.default_rng(seed)
        return rng.normal(size=(200, 8)) @ mixing + 0.6 * rng.normal(size=(200, 60))

    assert fit_mixture(vectors(1), vectors(2), clusters=(1,)).mixture.dimensions in (8, 16)  # of 4 … 32


def test_a_stored_mixture_scores_the_same():
    mixture = fit_mixture(blobs(1), blobs(2)).mixture
    again = GaussianMixture.from_arrays(mixture.to_arrays())
    np.testing.assert_array_equal(mixture.scores(blobs(3)), again.scores(blobs(3)))
    arrays = mixture.to_arrays()
    del arrays["means"]
    with pytest.raises(ValueError, match="no means"):
        GaussianMixture.from_arrays(arrays)
    with pytest.raises(ValueError, match="do not fit together"):
        GaussianMixture.from_arrays({**mixture.to_arrays(), "scale": np.ones(3, dtype=np.float32)})


def test_bad_vectors_are_refused():
    good = blobs(1)
    with pytest.raises(ValueError, match="too few for a mixture of 30"):
        fit_mixture(good[:20], good, clusters=(30, 40))
    with pytest.raises(ValueError, match="do not vary"):
        fit_mixture(np.ones((50, 4)), np.ones((9, 4)))
    with pytest.raises(ValueError, match="finite"):
        fit_mixture(np.where(good > 8, np.nan, good), good)
    with pytest.raises(ValueError, match="held-out ones of 4"):
        fit_mixture(good, good[:, :4])
    with pytest.raises(ValueError, match="vectors of 5 numbers"):
        fit_mixture(good, good).mixture.scores(good[:, :3])


def test_some_constant_features_and_few_vectors_do_no_harm():
    rng = np.random.default_rng(2)
    wide = np.zeros((30, 200))
    wide[:, :150] = rng.normal(size=(30, 150))
    mixture = fit_mixture(wide[:20], wide[20:]).mixture
    strange = wide[20:] + np.eye(200)[199]  # differs in a feature that never varied
    assert np.isfinite(mixture.scores(strange)).all()
    assert (mixture.scores(strange) > mixture.scores(wide[20:])).all()


def test_without_standardising_the_directions_are_those_in_which_vectors_vary_most():
    vectors = np.random.default_rng(3).normal(size=(400, 12)) * np.where(np.arange(12) < 3, 5.0, 1.0)
    plain = fit_mixture(vectors[:300], vectors[300:], dimensions=(3,), standardise=False).mixture
    assert len(np.unique(plain.scale)) == 1
    assert np.square(plain.directions[:, :3]).sum() > 2.9  # of 3
    scaled = fit_mixture(vectors[:300], vectors[300:], dimensions=(3,)).mixture
    assert np.square(scaled.directions[:, :3]).sum() < 2.5
