"""What is recorded of a bundle is what its networks said, of the pools that the layout names."""

import numpy as np
import pytest
from planted import PlantedEngine, planted_bundle, planted_pixels

from poolsieve.bundles.pool_layout import layout_for
from poolsieve.bundles.recordings import Recordings
from poolsieve.export.recording import BAD_SHARES, LEFT_OUT, record_readings
from poolsieve.schemes import LikelihoodModel

BAD, CLEAR = 40, 400


@pytest.fixture(scope="module")
def truth():
    return np.random.default_rng(0).permutation(np.arange(BAD + CLEAR) < BAD)


def record(truth, engine=None, **kinds):
    bundle, engine = planted_bundle(**kinds), engine or PlantedEngine()
    features = engine.front(planted_pixels(truth)).features
    likelihoods = LikelihoodModel(bundle.calibration)
    return record_readings(engine, likelihoods, features, truth, bundle.config.pool_sizes, gated=True)


@pytest.fixture(scope="module")
def recorded(truth):
    return record(truth, PlantedEngine(delusions=range(0, 256, 9)))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_the_first_classes_of_a_layout_are_designs_of_their_own(size):
    layout = layout_for(272, size, size // 2)
    assert layout.classes == size // 2
    for classes in range(1, layout.classes + 1):
        pooling = layout.first(classes)
        assert (pooling.image_weights == classes).all()
        assert pooling.guarantees.max_shared <= 1
        assert np.array_equal(pooling.pools, layout.pooling.pools[: classes * layout.pools_per_class])


def test_readings_are_those_of_the_recorded_pools(recorded, truth):
    """Head and pools take some images for bad, so readings are not the truth but what the networks see."""
    seen = truth | np.isin(np.arange(len(truth)) % 256, range(0, 256, 9))
    assert {pool.pool_size for pool in recorded.pools} == {4, 8}
    assert np.array_equal(recorded.bad, truth)
    assert np.array_equal(recorded.scores > 0.5, truth)
    assert np.array_equal(recorded.heads > 0, seen)
    for pool in recorded.pools:
        counts = pool.layout.pooling.counts(seen[pool.images])
        assert np.array_equal(pool.counts.reshape(counts.shape), counts)
        assert np.array_equal(pool.likelihoods.argmax(axis=-1).reshape(counts.shape), counts)
        assert all(len(set(chunk)) == len(chunk) for chunk in pool.images)


def test_every_bad_image_is_shown_once_at_each_share(recorded, truth):
    for pool in recorded.pools:
        if pool.everyone:
            shown = np.bincount(pool.images.ravel(), minlength=len(truth))
            assert (shown[truth] == len(BAD_SHARES)).all()


def test_images_that_look_bad_to_the_head_are_left_out_of_some_recordings():
    """A head that is often wrong: it takes half of the bad images for clear."""

    class Doubtful(PlantedEngine):
        def head(self, features):
            output = super().head(features)
            output.logits[:] += np.random.default_rng(1).normal(0, 6, len(features))
            return output

    truth = np.arange(BAD + CLEAR) % 11 == 0
    recorded = record(truth, Doubtful())
    bands = {pool.band for pool in recorded.pools if not pool.everyone}
    assert len(bands) == len(LEFT_OUT) - 1
    assert any(np.isfinite(floor) for floor, _ in bands)
    for pool in recorded.pools:
        floor, cut = pool.band
        heads = recorded.heads[pool.images]
        assert ((floor <= heads) & (heads < cut)).all()
        assert truth[pool.images].any()


def test_without_a_head_nothing_is_left_out(truth):
    recorded = record(truth, head=False)
    assert recorded.heads is None
    assert all(pool.everyone for pool in recorded.pools)


def test_recordings_survive_their_file(recorded):
    again = Recordings.from_bytes(recorded.to_bytes())
    assert np.array_equal(again.bad, recorded.bad)
    assert np.array_equal(again.scores, recorded.scores)
    for mine, theirs in zip(recorded.pools, again.pools, strict=True):
        assert mine.band == theirs.band
        for part in ("images", "likelihoods", "counts"):
            assert np.array_equal(getattr(mine, part), getattr(theirs, part))
    assert again.to_bytes() == recorded.to_bytes()


def test_what_is_no_recording_is_refused(recorded):
    from dataclasses import replace

    with pytest.raises(ValueError, match="not a file of recordings"):
        Recordings.from_bytes(b"nothing")
    pool = recorded.pools[0]
    with pytest.raises(ValueError, match="not there"):
        replace(recorded, pools=(replace(pool, images=pool.images + 1000),))
    with pytest.raises(ValueError, match="need"):
        replace(recorded, pools=(replace(pool, counts=pool.counts[:, :1]),))
    with pytest.raises(ValueError, match="bad and clear"):
        replace(recorded, bad=np.zeros(len(recorded.bad), dtype=bool))


def test_too_few_images_for_a_pool_are_told():
    with pytest.raises(ValueError, match="too few for pools of 8"):
        layout_for(7, 8, 2)
