"""MAP and belief propagation against exhaustive Bayes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolsieve.decoders import MAP, BeliefPropagation, CountNoise, LatentNoise, Readings, bayes
from poolsieve.designs import Pooling, balanced_design, disjoint_design

LOOPY = balanced_design(12, pool_size=4, pools_per_image=2, seed=0)
ALL_SETS = np.array(list(itertools.product([False, True], repeat=12)))


def exact_log_joint(log_likelihoods, priors, design, sets):
    """log P(x) + Σ log P(reading | (Φx)_q) for every set x, by enumeration."""
    counts = design.counts(sets)
    evidence = sum(log_likelihoods[q, counts[:, q]] for q in range(design.pool_count))
    with np.errstate(divide="ignore"):
        return evidence + np.where(sets, np.log(priors), np.log1p(-priors)).sum(axis=1)


def exact_posterior(log_likelihoods, priors, design, sets):
    joint = exact_log_joint(log_likelihoods, priors, design, sets)
    weight = np.exp(joint - joint.max())
    return (weight[:, None] * sets).sum(axis=0) / weight.sum()


tables = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(0, 3, (1, 6, 5)))


@settings(max_examples=150, deadline=None)
@given(tables, st.integers(0, 2**32 - 1))
def test_map_equals_brute_force(table, seed):
    """Any cost table, convex or not, and any priors, also above one half."""
    priors = np.random.default_rng(seed).uniform(0.01, 0.9, 12)
    joint = exact_log_joint(table[0], priors, LOOPY, ALL_SETS)
    decoding = MAP().decode(Readings.soft(table), LOOPY, priors)
    found = joint[(decoding.flags[0] == ALL_SETS).all(axis=1)][0]
    assert decoding.solved.all()
    assert found == pytest.approx(joint.max(), abs=1e-9)


def test_map_respects_impossible_counts():
    """Noiseless readings leave −inf everywhere else; MAP must still satisfy all pools."""
    bad = ALL_SETS[np.random.default_rng(0).choice(len(ALL_SETS), 100, replace=False)]
    decoding = MAP(noise=CountNoise.none(4)).decode(LOOPY.counts(bad), LOOPY, 0.1)
    assert np.array_equal(LOOPY.counts(decoding.flags), LOOPY.counts(bad))


TREES = {
    "disjoint pools": disjoint_design(12, 4),
    "chain": Pooling([[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7]], 9),  # image 8 is in no pool
    "star": Pooling([[0, 1, 2, 3], [0, 4, 5], [0, 6, 7], [1, 8, 9]], 10),
}


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("name", TREES)
def test_belief_propagation_is_exact_without_cycles(name, damping, monkeypatch):
    monkeypatch.setattr(bayes, "FEW_IMAGES", 0)
    design = TREES[name]
    generator = np.random.default_rng(4)
    sets = np.array(list(itertools.product([False, True], repeat=design.images)))
    decoder = BeliefPropagation(tolerance=1e-9, rounds=10_000, damping=damping)
    for _ in range(25):
        table = generator.normal(0, 2, (1, design.pool_count, design.pool_size + 1))
        priors = generator.uniform(0.01, 0.6, design.images)
        decoding = decoder.decode(Readings.soft(table), design, priors)
        assert decoding.solved.all()
        expected = exact_posterior(table[0], priors, design, sets)
        np.testing.assert_allclose(decoding.scores[0], expected, atol=1e-6)


@pytest.mark.parametrize("damping", [0.5, 0.9, 0.99])
def test_settled_means_settled_however_strong_the_damping(damping, monkeypatch):
    """At the default tolerance of .01 in log-odds no posterior of a tree is off by much more."""
    monkeypatch.setattr(bayes, "FEW_IMAGES", 0)
    design = TREES["chain"]
    generator = np.random.default_rng(4)
    sets = np.array(list(itertools.product([False, True], repeat=design.images)))
    for _ in range(25):
        table = generator.normal(0, 2, (1, design.pool_count, design.pool_size + 1))
        decoding = BeliefPropagation(damping=damping, rounds=10_000).decode(Readings.soft(table), design, 0.2)
        assert decoding.solved.all()
        expected = exact_posterior(table[0], np.full(design.images, 0.2), design, sets)
        np.testing.assert_allclose(decoding.scores[0], expected, atol=0.01)


def test_belief_propagation_is_close_on_a_graph_with_cycles():
    generator = np.random.default_rng(9)
    noise = LatentNoise.from_accuracy((0.98, 0.95, 0.9, 0.8), 4)
    bad = generator.random((60, 12)) < 0.1
    readings = noise.sample(bad, LOOPY, generator)
    decoding = BeliefPropagation().decode(readings, LOOPY, 0.1)
    expected = [exact_posterior(t, np.full(12, 0.1), LOOPY, ALL_SETS) for t in readings.log_likelihoods]
    assert np.quantile(abs(decoding.scores - expected), 0.95) < 0.03


@pytest.mark.parametrize("certain", [1.0, 60.0])
def test_few_images_have_exact_posteriors_however_their_pools_cross(certain):
    """Messages between these eight images and five pools grow to certainty, of the less probable set."""
    design = Pooling([[0, 2, 3], [0, 4, 6, 7], [1, 7], [1, 3, 5, 6], [2, 4, 5]], 9)  # image 8 is in no pool
    sets = np.array(list(itertools.product([False, True], repeat=9)))
    priors = np.array([0.5, 0.25, 0.5, 0.5, 0.25, 0.25, 0.5, 0.25, 0.1])
    table = np.full((2, 5, 5), -certain)
    table[:, np.arange(5), [2, 1, 0, 2, 1]] = 0.0
    table[1] *= 0.1
    decoding = BeliefPropagation().decode(Readings.soft(table), design, priors)
    assert decoding.solved.all()
    for scores, one in zip(decoding.scores, table, strict=True):
        np.testing.assert_allclose(scores, exact_posterior(one, priors, design, sets), atol=1e-9)
    assert certain == 1.0 or decoding.scores[0, 0] == pytest.approx(0.25)  # {0, 3, 5}, or {2, 3, 6}


def test_priors_decide_between_images_that_readings_cannot_tell_apart():
    design = disjoint_design(4, 4)
    decoding = BeliefPropagation().decode([[1]], design, np.array([0.01, 0.2, 0.01, 0.01]))
    assert decoding.flags[0].tolist() == [False, True, False, False]


@pytest.mark.parametrize("decoder", [BeliefPropagation(), MAP()])
def test_certain_priors_stay_certain(decoder, paper_design):
    priors = np.full(100, 0.05)
    priors[3], priors[7] = 0.0, 1.0
    bad = np.zeros(100, dtype=bool)
    bad[7] = True
    flags = decoder.decode(paper_design.counts(bad), paper_design, priors).flags[0]
    assert flags[7] and not flags[3]
    # also against all evidence: every pool of image 3 is sure to hold a bad image, those of image 7 are not
    table = np.zeros((1, 50, 9))
    table[0, paper_design.pools_of[3], 0] = -60
    table[0, paper_design.pools_of[7], 1:] = -60
    flags = decoder.decode(Readings.soft(table), paper_design, priors).flags[0]
    assert flags[7] and not flags[3]


def test_priors_may_differ_from_chunk_to_chunk(paper_design):
    counts = np.zeros((2, 50), dtype=int)
    counts[:, paper_design.pools_of[0][:2]] = 1  # ambiguous evidence for image 0
    low, high = np.full(100, 0.001), np.full(100, 0.001)
    high[0] = 0.9
    together = BeliefPropagation().decode(counts, paper_design, np.stack([low, high]))
    assert together.scores[1, 0] > together.scores[0, 0]
    apart = BeliefPropagation().decode(counts[1], paper_design, high)
    assert np.array_equal(apart.scores[0], together.scores[1])


def test_unsettled_messages_are_reported(paper_design, study_noise):
    generator = np.random.default_rng(1)
    readings = study_noise.sample(generator.random((50, 100)) < 0.2, paper_design, generator)
    assert not BeliefPropagation(rounds=1).decode(readings, paper_design, 0.2).solved.any()
    assert BeliefPropagation(rounds=500).decode(readings, paper_design, 0.2).solved.mean() > 0.9


def test_soft_readings_beat_hard_ones(paper_design, study_noise):
    generator = np.random.default_rng(2)
    bad = generator.random((3000, 100)) < 0.1
    readings = study_noise.sample(bad, paper_design, generator)
    noise = CountNoise(study_noise.confusion)

    def errors(given):
        return (BeliefPropagation(noise=noise).decode(given, paper_design, 0.1).flags != bad).sum()

    assert errors(readings) < 0.5 * errors(readings.hard())


def test_posteriors_are_calibrated(paper_design, study_noise):
    """Of the images with a posterior near one half, about half are bad (cycles make it a little too sure)."""
    generator = np.random.default_rng(3)
    bad = generator.random((10_000, 100)) < 0.1
    readings = study_noise.sample(bad, paper_design, generator).hard()
    scores = (
        BeliefPropagation(noise=CountNoise(study_noise.confusion)).decode(readings, paper_design, 0.1).scores
    )
    for low, high in ((0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95)):
        inside = (scores >= low) & (scores < high)
        assert inside.sum() > 200
        assert bad[inside].mean() == pytest.approx(scores[inside].mean(), abs=0.12)
