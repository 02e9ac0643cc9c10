"""A glance that tells much is planned with, and costs what the law says."""

import numpy as np
import pytest
from noisy import NoisyEngine, noisy_pixels
from planted import COST, PlantedEngine, planted_bundle, planted_pixels

from poolsieve.bundles.recordings import Recordings
from poolsieve.export.recording import record_readings
from poolsieve.moderation import Moderator
from poolsieve.planning import Target, search
from poolsieve.schemes import LikelihoodModel, make_scheme


class Glancing(NoisyEngine):
    """A glance of whose errors neither head nor individual network know."""

    def __init__(self, distance):
        super().__init__()
        self.glance_distance = distance

    def glance(self, images):
        bad = images[:, 0, 0, 0].astype(np.float32) / 255
        noise = np.random.default_rng(0).permutation(images[:, 2, 2, 2].astype(np.float32) / 128 - 1)
        return (self.glance_distance * (self.glance_distance * (bad - 0.5) + noise)).astype(np.float32)


def record(engine, pixels, truth):
    bundle = planted_bundle()
    features, likelihoods = engine.front(pixels).features, LikelihoodModel(bundle.calibration)
    sizes = bundle.config.pool_sizes
    return bundle, record_readings(engine, likelihoods, features, truth, sizes, gated=True, glanced_at=pixels)


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(5).permutation(np.arange(750) < 150)


def test_with_a_perfect_glance_only_bad_images_have_a_front(truth):
    bundle, recordings = record(PlantedEngine(), planted_pixels(truth), truth)
    for prevalence in (0.001, 0.01):
        best = search(
            recordings, prevalence, Target(within=0.03), bundle.config.pool_sizes, COST, gated=True
        ).best
        assert best.scheme == "glance"
        assert best.cost.value == pytest.approx(COST.glance / COST.whole + prevalence, abs=1e-6)
        assert best.sensitivity.value == best.specificity.value == 1


def test_a_useless_glance_is_not_used(truth):
    bundle, recordings = record(Glancing(0.0), noisy_pixels(truth, 1), truth)
    plans = search(recordings, 0.01, Target(within=0.03), bundle.config.pool_sizes, COST, gated=True).plans
    assert plans[0].scheme != "glance"
    assert all(plan.cost.value > 1 for plan in plans if plan.scheme == "glance")


def test_what_a_glance_promises_is_kept_on_other_images(truth):
    engine = Glancing(3.0)
    bundle, recordings = record(engine, noisy_pixels(truth, 1), truth)
    plans = search(recordings, 0.05, Target(within=0.03), bundle.config.pool_sizes, COST, gated=True).plans
    plan = next(plan for plan in plans if plan.scheme == "glance")
    scheme = make_scheme("glance", bundle.config.pool_sizes, **plan.parameters)
    bad = np.random.default_rng(8).random(20 * scheme.chunk_size) < 0.05
    moderator = Moderator(bundle, engine, scheme, seed=1)
    flags = np.array([verdict.flagged for verdict in moderator.moderate(list(noisy_pixels(bad, 9)))])
    found = flags[bad].mean()
    luck = 3 * np.sqrt(found * (1 - found) / bad.sum())
    assert plan.sensitivity.low - luck <= found <= plan.sensitivity.high + luck
    assert plan.cost.value < 0.6
    assert moderator.totals.meter.share == pytest.approx(plan.cost.value, abs=0.05)


def test_glances_survive_the_file_of_recordings(truth):
    _, recordings = record(PlantedEngine(), planted_pixels(truth), truth)
    again = Recordings.from_bytes(recordings.to_bytes())
    assert np.array_equal(again.glances, recordings.glances)
    with pytest.raises(ValueError, match="glances must be finite"):
        Recordings(recordings.bad, recordings.scores, None, (), np.full(750, np.nan, dtype=np.float32))
