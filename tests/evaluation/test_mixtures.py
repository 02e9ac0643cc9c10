import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.evaluation.detection_measures import ImageCounts
from poolsieve.evaluation.mixtures import Mixture, draw_mixture

LABELS = np.array([1] * 7 + [0] * 40)


@given(
    prevalence=st.floats(0.01, 0.6),
    images=st.integers(150, 900),
    seed=st.integers(0, 2**32),
    size=st.integers(1, 120),
)
def test_a_mixture_holds_its_share_and_every_image_equally_often(prevalence, images, seed, size):
    mixture = draw_mixture(LABELS, prevalence, images, np.random.default_rng(seed))
    assert len(mixture) == images
    assert mixture.bad.sum() == round(prevalence * images)
    assert np.array_equal(mixture.bad, LABELS[mixture.images] == 1)
    draws = np.bincount(mixture.images, minlength=len(LABELS))
    for label in (0, 1):
        assert np.ptp(draws[label == LABELS]) <= 1
    covered = np.concatenate([np.arange(images)[places] for places in mixture.chunks(size)])
    assert np.array_equal(covered, np.arange(images))


def test_mixtures_of_two_prevalences_differ_only_where_bad_images_are_more():
    rare, frequent = (draw_mixture(LABELS, p, 1000, np.random.default_rng(3)) for p in (0.02, 0.05))
    assert (
        np.flatnonzero(rare.images != frequent.images).tolist()
        == np.flatnonzero(frequent.bad & ~rare.bad).tolist()
    )
    assert not (rare.bad & ~frequent.bad).any()
    assert (rare.bad.sum(), frequent.bad.sum()) == (20, 50)


def test_bad_images_stand_anywhere():
    mixture = draw_mixture(LABELS, 0.5, 10_000, np.random.default_rng(0))
    halves = mixture.bad.reshape(2, -1).sum(axis=1)
    assert abs(halves[0] - 2500) < 150


@pytest.mark.parametrize(
    ("labels", "prevalence", "images", "message"),
    [
        (LABELS, 0.001, 400, "400 images at prevalence 0.001 hold 0 bad ones; draw at least 1000 images"),
        (LABELS, 0.0, 400, "prevalence is 0, but it must lie between 0 and 1"),
        (LABELS, 1.5, 400, "prevalence is 1.5"),
        (LABELS, 0.5, 1, "a mixture of 1 images is too small"),
        (np.zeros(9), 0.5, 400, r"there is no bad image \(label 1\) to draw from"),
        (np.ones(9), 0.5, 400, r"there is no ordinary image \(label 0\) to draw from"),
    ],
)
def test_what_cannot_be_drawn_is_refused(labels, prevalence, images, message):
    with pytest.raises(ValueError, match=message):
        draw_mixture(labels, prevalence, images, np.random.default_rng(0))


def test_precision_is_the_share_of_right_flags():
    mixture = Mixture(np.array([0, 1, 2, 3, 0]), np.array([True, False, False, True, True]), 0.5)
    found = ImageCounts.count(mixture, np.array([True, True, False, False, True])).detection()
    assert found.sensitivity.value == pytest.approx(2 / 3)
    assert found.specificity.value == 0.5
    assert found.precision.value == pytest.approx(2 / 3)
    nothing = ImageCounts.count(mixture, np.zeros(5, dtype=bool)).detection()
    assert nothing.precision.total == 0


@pytest.mark.parametrize("hard_share", [0.0, 0.15])
def test_intervals_cover_a_known_error_rate(hard_share):
    """Images differ in how hard they are: intervals by draws would be far too narrow."""
    truth_rate, covered, naive, runs = 0.0, 0, 0, 300
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        labels = np.array([1] * 120 + [0] * 200)
        # Each image has its own chance of being found, drawn from a population with a known mean.
        chance = np.where(rng.random(len(labels)) < hard_share, 0.2, 0.95)
        truth_rate = hard_share * 0.2 + (1 - hard_share) * 0.95
        mixture = draw_mixture(labels, 0.1, 12_000, rng)
        flags = (rng.random(len(mixture)) < chance[mixture.images]) & mixture.bad
        share = ImageCounts.count(mixture, flags).detection().sensitivity
        covered += share.low <= truth_rate <= share.high
        half = 1.96 * np.sqrt(share.value * (1 - share.value) / share.total)
        naive += abs(share.value - truth_rate) <= half
    assert 0.92 <= covered / runs <= 0.985
    if hard_share:
        assert naive / runs < 0.8
