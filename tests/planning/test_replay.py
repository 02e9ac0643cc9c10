"""Recordings answer stages as networks do: what is reckoned of a list is what a meter counts."""

from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from noisy import NoisyEngine, noisy_pixels
from planted import COST, planted_bundle

from poolsieve.decoders import CountNoise, Readings
from poolsieve.engines import NetworkOutput
from poolsieve.export.recording import record_readings
from poolsieve.planning.candidates import all_candidates
from poolsieve.planning.outcomes import outcomes
from poolsieve.planning.replay import Replay, recorded_readings, replayed_images
from poolsieve.schemes import (
    Chunk,
    CostMeter,
    DecodedPools,
    DisjointPools,
    Glance,
    Head,
    LikelihoodModel,
    Pools,
    Test,
    make_scheme,
)
from poolsieve.schemes.planted import JOINED_COST
from poolsieve.schemes.scheme import SCHEMES

SIZES = (4, 8)
IMAGES = 180


class Seeing(NoisyEngine):
    """Glances err in their own way; as an outlier bundle's, pools may be read apart from their logits."""

    def __init__(self, outlier):
        super().__init__()
        self.outlier = outlier

    def glance(self, images):
        if images.dtype != np.uint8:  # front features, where the individual network looks at images itself
            return (6 * (images[:, 0, 0, 0] - 0.5) + 2 * images[:, 3, 0, 0]).astype(np.float32)
        bad = images[:, 0, 0, 0].astype(np.float32) / 255
        return (6 * (bad - 0.5) + images[:, 2, 2, 2].astype(np.float32) / 64 - 2).astype(np.float32)

    def individual(self, features):
        seen = self.front(features).features if features.dtype == np.uint8 else features
        return super().individual(seen)

    def pooled(self, features, gate, pools, pool_size):
        output = super().pooled(features, gate, pools, pool_size)
        if not self.outlier:
            return output
        return NetworkOutput(output.logits, output.vectors, np.minimum(output.logits.argmax(axis=1), 2))


@cache
def recorded(merge, glance, head, outlier, joined):
    bundle, engine = planted_bundle(merge=merge, head=head), Seeing(outlier)
    truth = np.random.default_rng(3).permutation(np.arange(IMAGES) < 50)
    pixels = noisy_pixels(truth, 4)
    likelihoods = LikelihoodModel(bundle.calibration)
    features = engine.front(pixels).features
    recordings = record_readings(
        *(engine, likelihoods, features, truth, SIZES),
        gated=merge == "gated",
        tested=pixels if joined else None,
        glanced_at=(features if joined else pixels) if glance else None,
    )
    return engine, likelihoods, pixels, recordings


BUNDLES = st.tuples(st.sampled_from(["gated", "max"]), *[st.booleans()] * 4)
LOOKS = st.sampled_from([Head(), Head(clear_below=0), Glance(), Glance(clear_below=0)])
ENDS = st.sampled_from(
    [
        (Test(),),
        (Test(recompute=True),),
        (DisjointPools(), Test()),
        (Pools(), Test()),
        (Pools(), Test(recompute=True)),
        (DecodedPools(),),
    ]
)


@st.composite
def lists(draw):
    looks = draw(st.lists(LOOKS, max_size=2, unique_by=lambda look: look.name))
    return (*looks, *draw(ENDS))


def price_of(bundle):
    return JOINED_COST if bundle[-1] else COST


def drawn_candidate(stages, bundle, prevalence, data):
    """A candidate of a list that only the table knows, and the scheme at one of its bounds."""
    recordings, gated = recorded(*bundle)[3], bundle[0] == "gated"
    with patch.dict(SCHEMES, {"drawn": stages, "individual": (Test(),)}, clear=True):
        found, _ = all_candidates(recordings, prevalence, SIZES, price_of(bundle), gated=gated)
        found = [one for one in found if one.scheme.name == "drawn"]
        assume(found)
        candidate = found[data.draw(st.integers(0, len(found) - 1), label="candidate")]
        row = data.draw(st.integers(0, len(candidate.bounds) - 1), label="row")
        set_to = candidate.parameters | candidate.settings(float(candidate.bounds[row]))
        scheme = make_scheme("drawn", SIZES, **set_to)
    return candidate, row, scheme


def recording_of(candidate, recordings):
    """The recording that all samples of a candidate are from; looks before it clear nothing of it."""
    sizes = {candidate.parameters["pool_size"], candidate.parameters.get("large_pool_size")}
    same = [
        one for one in recordings.pools if one.pool_size in sizes and one.images.size == len(candidate.images)
    ]
    found = next((one for one in same if np.array_equal(one.images.ravel(), candidate.images)), None)
    assume(found is not None and None in sizes)
    return found


class ReplayedPools(Replay):
    """Recordings with the pools of one recorded chunk, which are given in their order."""

    def __init__(self, recordings, recording, number):
        super().__init__(recordings)
        self.recorded, self.recording, self.number = recordings, recording, number

    def pooled(self, features, gate, pools, pool_size):
        assert self.recording.pool_size == pool_size, "other pools were recorded"
        readings = recorded_readings(self.recording, len(pools) // self.recording.layout.pools_per_class)
        table = readings.log_likelihoods[self.number]
        return NetworkOutput(table, np.empty((len(table), 0)), readings.counts[self.number])

    def of_pools(self, logits, sizes, counts=None):
        return Readings(counts[None].astype(np.int64), logits[None])

    def count_noise(self, pool_size):
        true = self.recording.layout.pooling.counts(self.recorded.bad[self.recording.images])
        return CountNoise.estimate(true, self.recording.counts.reshape(true.shape), pool_size)


class DealtAsRecorded(Chunk):
    """Images in the pools that they were recorded in, live ones or recorded ones."""

    def arrange(self, design, rng):
        return self.recording.layout.first(round(float(design.image_weights.max())))

    def arrange_some(self, design, images, rng):
        raise ValueError(f"pools of {len(images)} of {len(self)} images were not recorded")


def dealt_as_recorded(recording, networks, likelihoods, images, price, *, gated):
    places = np.arange(len(images))
    chunk = DealtAsRecorded(networks, likelihoods, CostMeter(price), images, places, len(images), gated=gated)
    chunk.recording = recording
    return chunk


def replayed_chunk(recordings, recording, number, price, *, gated):
    replay = ReplayedPools(recordings, recording, number)
    return dealt_as_recorded(recording, replay, replay, recording.images[number], price, gated=gated)


def decide(scheme, chunk):
    return scheme.decide(chunk, np.random.default_rng(0))


PREVALENCES = st.sampled_from([0.001, 0.02, 0.2])


@given(lists(), BUNDLES, PREVALENCES, st.data())
@settings(deadline=None, max_examples=60)
def test_what_is_reckoned_is_what_the_meter_counts_on_recordings(stages, bundle, prevalence, data):
    candidate, row, scheme = drawn_candidate(stages, bundle, prevalence, data)
    recordings, gated = recorded(*bundle)[3], bundle[0] == "gated"
    above = candidate.values >= candidate.bounds[row]
    if not scheme.pools:
        chunk = replayed_images(recordings, price_of(bundle), gated=gated)
        tested = decide(scheme, chunk).decided_by == "individual"
        assert sorted(candidate.images[above]) == np.flatnonzero(tested).tolist()
        # At the share of bad images among the recorded ones every image weighs the same.
        share = float(recordings.bad.mean())
        table = outcomes(candidate, recordings, share)
        reckoned = candidate.costs(table.reaching, table.pools, table.tested)[row]
        assert table.tested[row] == pytest.approx(tested.mean())
    else:
        recording = recording_of(candidate, recordings)
        number = data.draw(st.integers(0, len(recording.images) - 1), label="chunk")
        chunk = replayed_chunk(recordings, recording, number, price_of(bundle), gated=gated)
        decision = decide(scheme, chunk)
        mine = above.reshape(recording.images.shape)[number]
        tested = decision.decided_by == "individual"
        if not candidate.tests:
            assume(not tested.any())  # pools tell of improbably many bad images, as in recorded chunks
        same = mine == (tested if candidate.tests else decision.flags)
        at_bound = (
            np.abs(candidate.values - candidate.bounds[row]).reshape(recording.images.shape)[number] < 2e-5
        )
        assert (same | at_bound).all()
        reached = [mask[recording.images[number]].mean() for mask in candidate.reached]
        pools = candidate.pools[recording.images[number]].mean()
        reckoned = candidate.costs(reached, pools, tested.mean())
    assert reckoned == pytest.approx(chunk.meter.share, rel=1e-12)


@given(lists(), BUNDLES, PREVALENCES, st.data())
@settings(deadline=None, max_examples=30)
def test_decisions_on_recordings_are_those_of_the_networks(stages, bundle, prevalence, data):
    assume(bundle[1] or Glance.name not in [stage.name for stage in stages])  # the live engine has a glance
    candidate, row, scheme = drawn_candidate(stages, bundle, prevalence, data)
    (engine, likelihoods, pixels, recordings), gated = recorded(*bundle), bundle[0] == "gated"
    images, replayed = np.arange(IMAGES), replayed_images(recordings, price_of(bundle), gated=gated)
    values, recording = candidate.values, None
    if scheme.pools:
        recording = recording_of(candidate, recordings)
        images, values = recording.images[0], values.reshape(recording.images.shape)[0]
        replayed = replayed_chunk(recordings, recording, 0, price_of(bundle), gated=gated)
    else:
        assume(len(values) == IMAGES)
    live = dealt_as_recorded(recording, engine, likelihoods, pixels[images], price_of(bundle), gated=gated)
    one, other = decide(scheme, live), decide(scheme, replayed)
    assume(one.note is None and other.note is None)  # how counts err is known from other pools
    sure = np.abs(values - candidate.bounds[row]) > 0.1  # recordings have half precision
    assert np.array_equal(one.decided_by[sure], other.decided_by[sure])
    assert np.array_equal(one.flags[sure], other.flags[sure])
    if sure.all():
        assert dict(live.meter.runs) == dict(replayed.meter.runs)
