"""Any list of stages that makes sense runs, costs what is reckoned for it, and can be written down."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import COST, Doubting, planted_bundle, planted_moderator, planted_pixels, write_images

from poolsieve.moderation import Moderator
from poolsieve.planning.choosing import choose_scheme
from poolsieve.schemes import (
    Chunk,
    CostMeter,
    DecodedPools,
    DisjointPools,
    Glance,
    Head,
    LikelihoodModel,
    Pools,
    Scheme,
    Test,
    check_scheme,
    list_schemes,
    list_stages,
    make_scheme,
    make_stage,
)
from poolsieve.schemes.scheme import SCHEMES

LOOKS = st.sampled_from([Head, Glance])
BOUNDS = st.sampled_from([0.0, 0.001, 0.004, 0.02, 0.3])


@st.composite
def looks(draw):
    clear_below = draw(BOUNDS)
    return draw(LOOKS)(
        clear_below=clear_below,
        flag_above=draw(st.sampled_from([1.0, 0.9])),
        test_above=draw(st.sampled_from([1.0, 0.5, max(0.1, 2 * clear_below)])),
    )


@st.composite
def pool_stages(draw):
    size = draw(st.sampled_from([4, 8]))
    if draw(st.booleans()):
        return DisjointPools(pool_size=size)
    return Pools(
        pool_size=size,
        pools_per_image=draw(st.integers(1, 2)),
        retest_above=draw(st.sampled_from([0.001, 0.01, 0.1])),
        **({"large_below": 0.005, "large_pool_size": 8} if size == 4 and draw(st.booleans()) else {}),
    )


@st.composite
def schemes(draw):
    first = draw(st.lists(looks() | pool_stages(), max_size=3))
    names = [stage.name for stage in first if not stage.pools]
    first = [stage for stage in first if stage.pools or names.count(stage.name) == 1]
    least = 8  # rounds of pools that nothing comes between do not grow
    for place, stage in enumerate(first):
        if isinstance(stage, DisjointPools):
            least = min(least, stage.pool_size)
            first[place] = replace(stage, pool_size=least)
        elif not stage.pools:
            least = 8
    last = draw(
        st.builds(Test, threshold=st.just(0.5), recompute=st.booleans())
        | st.builds(DecodedPools, decoder=st.sampled_from(["mip", "bp"]))
    )
    prevalence = draw(st.sampled_from([0.001, 0.01, 0.1]))
    return Scheme((*first, last), chunk=104, prevalence=prevalence)


def decide(scheme, truth, merge, seed, head=True):
    bundle, engine = planted_bundle(merge=merge, head=head), Doubting()
    meter = CostMeter(COST)
    chunk = Chunk(
        engine,
        LikelihoodModel(bundle.calibration),
        meter,
        planted_pixels(truth),
        np.arange(len(truth)),
        len(truth),
        gated=merge == "gated",
    )
    return scheme.decide(chunk, np.random.default_rng(seed)), meter, engine


MERGES = st.sampled_from(["gated", "max"])


@given(scheme=schemes(), bad=st.integers(0, 12), seed=st.integers(0, 99), merge=MERGES)
@settings(deadline=None, max_examples=150)
def test_any_sensible_list_decides_about_every_image_and_finds_the_bad_ones(scheme, bad, seed, merge):
    truth = np.random.default_rng(seed).permutation(104) < bad
    decision, meter, engine = decide(scheme, truth, merge, seed)
    assert set(decision.decided_by) <= {"head", "glance", "pools", "individual"}
    assert not decision.flags[~truth].any()  # perfect networks raise no alarm
    assert meter.images == 104
    ran = {"glance": "glance", "front": "front", "head": "head", "pools": "pooled", "retests": "individual"}
    assert {part: engine.rows[name] for part, name in ran.items()} == {part: meter.runs[part] for part in ran}


@given(scheme=schemes())
@settings(deadline=None, max_examples=40)
def test_any_sensible_list_keeps_the_contract(scheme):
    """Among it that what is reckoned from how many images reach each stage is what the meter counts."""
    check_scheme(scheme)


def test_pools_of_few_images_that_fit_two_answers_are_sure_of_neither():
    """Two rounds leave eight images, three of them bad; messages between so few were certain, and wrong."""
    first, few = DisjointPools(pool_size=4), Pools(pool_size=4, pools_per_image=2, retest_above=0.001)
    check_scheme(Scheme((first, first, few, Test()), chunk=104, prevalence=0.001))


TWO_ROUNDS = Scheme((DisjointPools(pool_size=8), Test()), chunk=104)
THREE_ROUNDS = Scheme((DisjointPools(pool_size=8), DisjointPools(pool_size=4), Test()), chunk=104)


@given(bad=st.integers(0, 12), seed=st.integers(0, 99), merge=MERGES)
@settings(deadline=None, max_examples=60)
def test_a_round_of_smaller_pools_saves_tests_and_finds_the_same(bad, seed, merge):
    """Each pool of 8 with bad images leaves 8; their pools of 4 are as many as a quarter of them."""
    truth = np.random.default_rng(seed).permutation(104) < bad
    two, fewer, _ = decide(TWO_ROUNDS, truth, merge, seed)
    three, meter, _ = decide(THREE_ROUNDS, truth, merge, seed)
    assert np.array_equal(three.flags, two.flags)
    assert meter.runs["pools"] == 13 + fewer.runs["retests"] / 4
    assert meter.runs["retests"] <= min(fewer.runs["retests"], 4 * bad)
    assert meter.runs["front"] == fewer.runs["front"] == 104  # features of the first round are reused


def test_pools_of_images_that_were_left_do_not_tell_the_prevalence():
    """They are of images in pools with bad ones: the first round goes on telling it."""
    truth = np.random.default_rng(3).permutation(104) < 2
    two, three = (decide(scheme, truth, "max", 3)[0] for scheme in (TWO_ROUNDS, THREE_ROUNDS))
    for name in ("likelihoods", "group_sizes", "group_weight"):
        np.testing.assert_array_equal(getattr(three, name), getattr(two, name))


def test_who_was_in_a_positive_pool_stays_likelier_to_be_bad():
    """What a second round clears has a score that knows of the first."""
    truth = np.random.default_rng(3).permutation(104) < 1
    decision, _, _ = decide(THREE_ROUNDS, truth, "max", 3)
    first, second = decision.pooling.pools[:13], decision.pooling.pools[13:]
    left = np.zeros(104, dtype=bool)
    left[second[second >= 0]] = True
    assert left.sum() == 8 and set(np.flatnonzero(left)) in [set(pool) for pool in first]
    cleared = left & (decision.decided_by == "pools")
    assert cleared.sum() == 4
    assert decision.scores[cleared].min() > 5 * decision.scores[~left].max()


NONSENSE = [
    ((), "at least one stage"),
    ((Head(),), "leaves images undecided"),
    ((Test(), Head()), "leaves nothing undecided"),
    ((DecodedPools(), Test()), "leaves nothing undecided"),
    ((Head(), Head(clear_below=0.1), Test()), "a second head sees nothing new"),
    (
        (Pools(pool_size=4, pools_per_image=1, retest_above=0.3), Test()),
        "pools can find nothing: .* 0.25 with",
    ),
    ((Head(clear_below=1), Test()), "head clears every image with clear_below=1; lower it"),
    ((Glance(clear_below=0, flag_above=0), Test()), "glance flags every image with flag_above=0; raise it"),
    (
        (DisjointPools(pool_size=4), DisjointPools(pool_size=16), Test()),
        "disjoint_pools with pool_size=16 pools what pools of 4 left, .* put larger pools before",
    ),
    (
        (DisjointPools(pool_size=4), Pools(), DisjointPools(), Test()),
        "disjoint_pools with pool_size=8 pools what pools of 4 left",
    ),
    *(
        (
            (Head(clear_below=0.1, test_above=0.1), pools, *last),
            f"{pools.name} has no image to pool: head clears .* test_above=0.1; raise that",
        )
        for pools, last in ((Pools(), (Test(),)), (DisjointPools(), (Test(),)), (DecodedPools(), ()))
    ),
]


@pytest.mark.parametrize(("stages", "reason"), NONSENSE)
def test_lists_that_make_no_sense_are_refused_with_the_reason(stages, reason):
    with pytest.raises(ValueError, match=reason):
        Scheme(stages)


def test_a_bound_that_a_plan_sets_on_the_longest_odds_makes_a_scheme():
    """Their probability is 1 in floating point, below which every image would be clear."""
    Scheme((Head(**Head().at(60.0)), Test()))
    assert Head().at(0.0) == {"clear_below": 0.5}


@pytest.mark.parametrize(
    ("stage", "chunk"),
    [
        (DisjointPools(pool_size=512), 10),
        (DisjointPools(pool_size=8), 4),
        (Pools(pool_size=8), 7),
        (Pools(pool_size=4, large_below=0.005, large_pool_size=16), 12),
    ],
)
def test_pools_larger_than_a_chunk_are_refused(stage, chunk):
    size = max(stage.sizes)
    with pytest.raises(
        ValueError, match=f"pools of {size}, which no chunk of {chunk} can fill; take .* {size}"
    ):
        Scheme((stage, Test()), chunk=chunk)
    Scheme((stage, Test()), chunk=size)
    assert Scheme((stage, Test())).chunk_size >= 100


def test_chunks_suit_the_largest_pools():
    for stage in (
        DisjointPools(pool_size=512),
        Pools(pool_size=512),
        Pools(pool_size=8, large_below=0.005, large_pool_size=512),
    ):
        assert Scheme((stage, Test())).chunk_size >= 512


def test_a_look_between_rounds_may_leave_images_for_larger_pools():
    few = Head(clear_below=0, test_above=0.1)
    Scheme((DisjointPools(pool_size=4), few, DisjointPools(pool_size=8), Test()))


def test_networks_that_the_bundle_lacks_are_named_before_the_first_image():
    whole = planted_bundle()
    blind = SimpleNamespace(**{**vars(whole), "config": replace(whole.config, glance=None)})
    with pytest.raises(ValueError, match=r"has no glance.onnx, which the stage glance needs"):
        Moderator(blind, Doubting(), Scheme((Glance(), Test())))
    with pytest.raises(ValueError, match=r"has no calibration for it, which the stage head needs"):
        Moderator(planted_bundle(head=False), Doubting(), Scheme((Head(), Test())))
    Moderator(planted_bundle(head=False), Doubting(), Scheme((Head(clear_below=0), Pools(), Test())))


def test_a_parameter_that_two_stages_have_is_named_after_its_stage(monkeypatch):
    monkeypatch.setitem(SCHEMES, "twice", (Glance(), Head(), Test()))
    made = make_scheme("twice", (8,), glance_clear_below=0.02, head_clear_below=0.1, threshold=0.3)
    assert [stage.clear_below for stage in made.stages[:2]] == [0.02, 0.1]
    assert "glance_clear_below=0.02" in str(made)
    with pytest.raises(
        ValueError, match=r"no parameter 'clear_below'; its parameters are: .*head_clear_below"
    ):
        make_scheme("twice", (8,), clear_below=0.1)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"stages": "head"}, "looks like"),
        ({"stages": [{"clear_below": 1}]}, "looks like"),
        ({"stages": [{"stage": "hed"}, {"stage": "test"}]}, "no stage is named 'hed'"),
        ({"stages": [{"stage": "head", "below": 1}, {"stage": "test"}]}, "head has no parameter 'below'"),
        ({"stages": [{"stage": "test"}], "chunks": 3}, "no 'chunks'"),
        ({"stages": [{"stage": "test", "threshold": 7}]}, "threshold=7"),
    ],
)
def test_what_is_wrong_with_a_written_list_is_said(values, reason):
    with pytest.raises(ValueError, match=reason):
        Scheme.from_json(values)


def test_a_file_of_stages_is_a_plan(tmp_path):
    file = tmp_path / "stages.json"
    file.write_text(
        '{"stages": [{"stage": "glance"}, {"stage": "pools", "pool_size": 4}, {"stage": "test"}]}'
    )
    bundle = planted_bundle()
    scheme, _ = choose_scheme(bundle, "auto", None, file, {})
    moderator = Moderator(bundle, Doubting(), scheme, seed=1)
    truth = np.random.default_rng(0).permutation(104) < 3
    verdicts = list(moderator.moderate([str(f) for f in write_images(tmp_path / "photos", truth)]))
    assert [v.status == "flagged" for v in verdicts] == truth.tolist()
    assert verdicts[0].scheme.startswith("glance(clear_below=0.001")
    file.write_text('{"stages": [{"stage": "pools", "pool_size": 32}, {"stage": "test"}]}')
    with pytest.raises(ValueError, match=r"pool_size=32, but the bundle has networks for pools of 4, 8"):
        Moderator(bundle, Doubting(), choose_scheme(bundle, "auto", None, file, {})[0])
    with pytest.raises(ValueError, match=r"none.json: there is no such file"):
        choose_scheme(bundle, "auto", None, tmp_path / "none.json", {})
    file.write_text('{"stages": [{"stage": "head"}]}')
    with pytest.raises(ValueError, match=r"stages.json: head leaves images undecided"):
        choose_scheme(bundle, "auto", None, file, {})


def test_a_scheme_of_ones_own_holds_all_its_parameters():
    own = Scheme((Glance(), Test()))
    assert choose_scheme(planted_bundle(), own, None, None, {"threshold": None}) == (own, None)
    with pytest.raises(ValueError, match="leave out threshold"):
        choose_scheme(planted_bundle(), own, None, None, {"threshold": 0.3})


def test_every_stage_is_in_a_scheme_or_can_be_made_by_name():
    used = {stage.name for stages in SCHEMES.values() for stage in stages}
    assert used == set(list_stages())
    for name in list_stages():
        assert make_stage(name).name == name


def test_only_images_that_a_glance_leaves_have_a_front_and_a_head():
    truth = np.random.default_rng(5).permutation(104) < 4
    scheme = Scheme((Glance(), Head(), Test()), chunk=104)
    decision, meter, _ = decide(scheme, truth, "gated", 0)
    left = (decision.decided_by != "glance").sum()
    assert meter.runs["front"] == meter.runs["head"] == left < 60
    assert np.array_equal(decision.flags, truth)


def test_a_named_scheme_is_its_list():
    truth = np.arange(96) % 20 == 0
    pixels = list(planted_pixels(truth))
    for name in list_schemes():
        by_name = planted_moderator(name, engine=Doubting(), chunk=104)
        by_list = Moderator(
            planted_bundle(), Doubting(), Scheme(by_name.scheme.stages, chunk=104), seed=7, reading_threads=2
        )
        one, other = (
            [(v.status, v.score, v.decided_by, v.pools) for v in each.moderate(pixels)]
            for each in (by_name, by_list)
        )
        assert one == other
