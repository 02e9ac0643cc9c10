import numpy as np
import pytest
from planted import PlantedEngine, SomeInPools, planted_bundle, planted_pixels

from poolsieve.engines import FrontFeatures
from poolsieve.moderation import Moderator
from poolsieve.schemes import (
    Chunk,
    CostMeter,
    Glance,
    LikelihoodModel,
    Pools,
    Scheme,
    Test,
    list_schemes,
    make_scheme,
)
from poolsieve.schemes.look_alikes import find_groups

POOLED = [name for name in list_schemes() if make_scheme(name, (4, 8)).pools]
SCENES = np.random.default_rng(0).exponential(size=(256, 60)).astype(np.float32)


class Scenes(SomeInPools):
    """Sees the scene of an image, its third value, and cannot count bad images of one scene in pools."""

    def front(self, images):
        seen = super().front(images).features
        return FrontFeatures(np.concatenate([seen, 5 * SCENES[images[:, 0, 0, 2]][:, :, None, None]], axis=1))


def scenes_of(groups):
    """Scenes of 100 images, of which some share one."""
    scenes = np.arange(100)
    for group in groups:
        scenes[group] = group[0]
    return scenes


def decide(scheme, bad, groups, engine=None):
    pixels = planted_pixels(bad)
    pixels[..., 2] = scenes_of(groups)[:, None, None]
    bundle, engine = planted_bundle(), engine or Scenes()
    meter = CostMeter(bundle.config.cost)
    chunk = Chunk(engine, LikelihoodModel(bundle.calibration), meter, pixels, np.arange(100), 100, gated=True)
    return scheme.decide(chunk, np.random.default_rng(1)), meter, engine


@pytest.mark.parametrize("name", POOLED)
def test_of_a_burst_only_one_frame_is_in_pools_and_all_are_found(name):
    burst = np.arange(30, 50)
    bad = np.isin(np.arange(100), burst)
    decision, meter, _ = decide(make_scheme(name, (8,)), bad, [burst])
    assert np.array_equal(decision.flags, bad)
    assert (decision.pooling.image_weights[burst] > 0).sum() == 1
    assert (decision.pooling.image_weights[~bad] > 0).all()
    assert (decision.decided_by[burst] == "individual").sum() >= 19
    assert meter.images == 100
    assert meter.runs["front"] == 100
    assert meter.runs["retests"] == (decision.decided_by == "individual").sum()


@pytest.mark.parametrize("name", POOLED)
def test_harmless_images_that_look_alike_are_cleared_together(name):
    groups = [np.arange(20), np.array([50, 70, 99])]
    decision, meter, _ = decide(make_scheme(name, (8,)), np.zeros(100), groups)
    assert not decision.flags.any()
    assert meter.runs["retests"] == 0
    assert set(decision.judged_with[:20]) == {0}
    assert set(decision.judged_with[[50, 70, 99]]) == {50}
    alone = np.setdiff1d(np.arange(20, 100), [50, 70, 99])
    assert np.array_equal(decision.judged_with[alone], alone)


@pytest.mark.parametrize("name", POOLED)
def test_the_image_that_looks_worst_stands_for_the_others(name):
    """A bad image among harmless ones of the same scene is found, and they are not flagged for its sake."""
    bad = np.arange(100) == 7
    decision, meter, _ = decide(make_scheme(name, (8,)), bad, [np.arange(12)])
    assert np.array_equal(decision.flags, bad)
    assert np.flatnonzero(decision.pooling.image_weights[:12]).tolist() == [7]
    assert (decision.decided_by[:12][~bad[:12]] == "individual").all()
    assert meter.runs["retests"] >= 11


@pytest.mark.parametrize("name", list_schemes())
def test_where_nothing_looks_alike_the_scheme_decides_as_ever(name):
    bad = np.random.default_rng(2).permutation(100) < 3
    scheme = make_scheme(name, (8,))
    decision, meter, _ = decide(scheme, bad, [])
    assert decision.judged_with is None
    assert np.array_equal(decision.flags, bad)
    assert meter.images == 100


@pytest.mark.parametrize("name", sorted(set(list_schemes()) - set(POOLED)))
def test_schemes_without_pools_look_at_every_image(name):
    bad = np.arange(100) < 20
    decision, _, engine = decide(make_scheme(name, (8,)), bad, [np.arange(20)])
    assert decision.judged_with is None
    assert engine.rows["individual"] >= 20


def test_after_a_glance_only_what_it_leaves_is_looked_at_for_look_alikes():
    bad = np.arange(100) < 3
    scheme = Scheme((Glance(), Pools(pool_size=4), Test()), chunk=100)
    engine = Scenes(delusions=range(40, 80))
    decision, meter, _ = decide(scheme, bad, [np.arange(40, 60)], engine)
    assert np.array_equal(decision.flags, bad)
    left = (decision.decided_by != "glance").sum()
    assert meter.runs["front"] == meter.runs["head"] == left == 43


def test_few_channels_tell_nobody_apart():
    features = np.random.default_rng(0).random((10, 31, 2, 2), dtype=np.float32)
    features[5] = features[4]
    assert np.array_equal(find_groups(features), np.arange(10))


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 1.0])
def test_bursts_of_any_length_are_found(share):
    rng = np.random.default_rng(3)
    frames = round(100 * share)
    features = rng.exponential(size=(100, 240, 1, 1))
    features[:frames] = features[0] * rng.normal(1, 0.02, size=(frames, 240, 1, 1))
    groups = find_groups(features.astype(np.float32))
    if frames < 100:  # what all share is the chunk's mean, and is left to the readings of pools
        assert len(set(groups[:frames])) == 1
    assert len(set(groups[frames:])) == 100 - frames


def test_copies_of_a_file_say_with_whom_they_were_judged():
    bad = np.zeros(96)
    pixels = planted_pixels(bad)
    pixels[..., 2] = np.arange(96)[:, None, None]
    pixels[40] = pixels[3]
    moderator = Moderator(planted_bundle(), Scenes(), make_scheme("adaptive", (8,), chunk=96), seed=5)
    verdicts = list(moderator.moderate(list(pixels)))
    assert verdicts[40].note == "looks like the image at position 3, and was judged with it"
    assert [verdict.note for k, verdict in enumerate(verdicts) if k != 40] == [None] * 95
    assert verdicts[40].status == verdicts[3].status == "clear"
    assert verdicts[40].pools == ()
    assert verdicts[3].pools
    assert moderator.totals.images == 96


def test_an_engine_that_sees_no_scenes_pools_everyone():
    decision, _, _ = decide(make_scheme("dorfman", (8,)), np.zeros(100), [np.arange(20)], PlantedEngine())
    assert decision.judged_with is None
