import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import (
    COST,
    OneInSomePools,
    PlantedEngine,
    SomeInPools,
    TwoInEveryPool,
    planted_bundle,
    planted_pixels,
)

from poolsieve.decoders import list_decoders
from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, decoded_pools, list_schemes, make_scheme

F = COST.front / COST.whole
GATE = COST.gate / COST.whole


def decide(scheme, bad, *, engine=None, places=None, size=None, bundle=None, seed=0):
    engine, bundle = engine or PlantedEngine(), bundle or planted_bundle()
    meter = CostMeter(bundle.config.cost)
    chunk = Chunk(
        engine,
        LikelihoodModel(bundle.calibration),
        meter,
        planted_pixels(bad),
        np.arange(len(bad)) if places is None else np.asarray(places),
        len(bad) if size is None else size,
        gated=bundle.config.merge == "gated",
    )
    return scheme.decide(chunk, np.random.default_rng(seed)), meter, engine


def truth_with(bad, size):
    flags = np.zeros(size, dtype=bool)
    flags[np.random.default_rng(bad).choice(size, bad, replace=False)] = True
    return flags


@pytest.mark.parametrize("name", list_schemes())
@pytest.mark.parametrize("bad", [0, 1, 3, 10])
def test_with_perfect_networks_every_scheme_finds_the_truth_at_the_cost_of_the_law(name, bad):
    scheme = make_scheme(name, (4, 8))
    truth = truth_with(bad, scheme.chunk_size)
    decision, meter, engine = decide(scheme, truth)
    assert np.array_equal(decision.flags, truth)
    n = len(truth)
    retests = (decision.decided_by == "individual").sum() / n
    pools = 0 if decision.pooling is None else decision.pooling.pool_count / n
    gate = 0 if name == "individual" else GATE
    law = F + gate + (pools + retests) * (1 - F)
    glances = (decision.decided_by != "head").sum() if name == "early_exit" else n * (name == "glance")
    if name == "glance":
        law = COST.glance / COST.whole + retests
    elif name == "early_exit":
        law += glances / n * COST.glance / COST.whole
    assert meter.share == pytest.approx(law, rel=1e-12)
    # and the law's numbers are what was really run
    assert engine.rows == {
        "glance": glances,
        "front": round(retests * n) if name == "glance" else n,
        "head": 0 if name in ("individual", "glance") else n,
        "individual": round(retests * n),
        "pooled": round(pools * n),
    }
    assert meter.images == n


def test_costs_of_the_papers_cases():
    """f = .22: 50 pools for 100 images cost .61 without a gate (DESIGN's figure)."""
    plain = planted_bundle(merge="max")
    truth = truth_with(3, 100)
    _, meter, engine = decide(make_scheme("oneshot", (8,)), truth, bundle=plain)
    assert meter.share == pytest.approx(0.61)
    assert engine.gates == [False]
    _, meter, _ = decide(make_scheme("individual", (8,)), truth, bundle=plain)
    assert meter.share == 1.0
    _, meter, _ = decide(make_scheme("dorfman", (8,)), np.zeros(104, dtype=bool), bundle=plain)
    assert meter.share == pytest.approx(0.22 + 0.78 / 8)


@pytest.mark.parametrize("size", [4, 8])
def test_dorfman_retests_whole_positive_pools_and_reuses_fronts(size):
    truth = truth_with(1, 104)
    decision, meter, _ = decide(make_scheme("dorfman", (4, 8), pool_size=size, chunk=104), truth)
    assert (decision.decided_by == "individual").sum() == meter.runs["retests"] == size
    assert meter.runs["front"] == 104
    again, costly, _ = decide(
        make_scheme("dorfman", (4, 8), pool_size=size, chunk=104, recompute=True), truth
    )
    assert costly.runs["front"] == 104 + size
    assert costly.share == pytest.approx(meter.share + F * size / 104)
    assert np.array_equal(again.flags, decision.flags)


@pytest.mark.parametrize("decoder", list_decoders())
def test_oneshot_takes_any_decoder(decoder):
    truth = truth_with(2, 100)
    decision, meter, _ = decide(make_scheme("oneshot", (4, 8), decoder=decoder), truth)
    assert decision.flags[truth].all()
    assert meter.runs["retests"] == 0
    assert set(decision.decided_by) == {"pools"}


def test_oneshot_with_posteriors_flags_above_the_threshold():
    truth = truth_with(3, 100)
    unsure = PlantedEngine(count_confidence=2.0)
    scheme = make_scheme("oneshot", (8,), decoder="bp", pools_per_image=2, threshold=0.02)
    decision, _, _ = decide(scheme, truth, engine=unsure)
    assert np.array_equal(decision.flags, decision.scores > 0.02)
    assert decision.flags.sum() > (decision.scores > 0.5).sum()


def test_a_search_that_was_given_up_is_on_record(monkeypatch):
    monkeypatch.setattr(decoded_pools, "NODE_LIMIT", 3)
    clear = np.zeros(100, dtype=bool)
    scheme = make_scheme("oneshot", (8,), prevalence=0.1)
    decision, meter, _ = decide(scheme, clear, engine=OneInSomePools())
    assert decision.note == "mip stopped at its limit of 3 nodes; a better answer may exist"
    assert not decision.solved
    assert meter.runs["retests"] == 0
    plain, _, _ = decide(scheme, clear)
    assert plain.note is None
    assert plain.solved


def test_readings_that_fit_nothing_are_not_searched():
    """An exact decoder would be at it for hours."""
    clear = np.zeros(100, dtype=bool)
    decision, meter, _ = decide(
        make_scheme("oneshot", (8,), decoder="mip:node_limit=none"), clear, engine=TwoInEveryPool()
    )
    assert not decision.flags.any()
    assert decision.solved
    assert meter.runs["retests"] == 100


DISTURBED = {  # name: bad images, pools' view of them, images that pools take for bad
    "a burst that pools cannot count": (20, SomeInPools, 0),
    "many bad images": (30, PlantedEngine, 0),
    "masks": (1, PlantedEngine, 20),
}


@pytest.mark.parametrize("decoder", ["mip", "bp", "bp-hard", "classo"])
@pytest.mark.parametrize("case", DISTURBED)
def test_chosen_pool_mates_neither_hide_bad_images_nor_flag_clean_ones(case, decoder):
    bad, kind, fooled = DISTURBED[case]
    truth = truth_with(bad, 100)
    engine = kind(delusions=np.flatnonzero(~truth)[:fooled])
    decision, meter, _ = decide(make_scheme("oneshot", (8,), decoder=decoder), truth, engine=engine)
    assert np.array_equal(decision.flags, truth)
    tested = decision.decided_by == "individual"
    assert tested[truth].all()
    assert meter.runs["retests"] == tested.sum()
    assert decision.solved
    assert "improbable at a prevalence of 0.01" in decision.note
    assert f"so {tested.sum()} doubtful ones were tested individually" in decision.note


@given(bad=st.integers(0, 100), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_oneshot_finds_any_number_of_bad_images_that_networks_see(bad, seed):
    truth = np.random.default_rng(seed).permutation(100) < bad
    decision, _, _ = decide(make_scheme("oneshot", (8,)), truth, seed=seed)
    assert np.array_equal(decision.flags, truth)


def test_adaptive_tests_at_once_what_looks_bad_and_pools_the_rest():
    """Ten images look bad to the head, two of them are: the others fill one pool less of eight."""
    truth = truth_with(2, 104)
    fooled = np.concatenate([np.flatnonzero(truth), np.flatnonzero(~truth)[:8]])
    engine = PlantedEngine(delusions=np.flatnonzero(~truth)[:8])
    scheme = make_scheme("adaptive", (4, 8), test_above=0.1, pools_per_image=1, chunk=104)
    decision, meter, _ = decide(scheme, truth, engine=engine)
    assert np.array_equal(decision.flags, truth)
    assert (decision.pooling.image_weights == 0).nonzero()[0].tolist() == sorted(fooled)
    assert meter.runs["retests"] == 10
    assert meter.runs["pools"] == 12  # 94 images
    everything, _, _ = decide(scheme, np.ones(20, dtype=bool))
    assert set(everything.decided_by) == {"individual"}


def test_adaptive_clears_at_once_what_looks_clear():
    """The head sees all bad images but doubts a few clear ones: nobody else is in a pool."""
    truth = truth_with(3, 104)

    class Doubting(PlantedEngine):
        def head(self, features):
            output = super().head(features)
            output.logits[np.flatnonzero(~truth)[:21]] = 0.0
            return output

    scheme = make_scheme(
        "adaptive", (4, 8), clear_below=0.005, test_above=0.1, pools_per_image=1, chunk=104, threshold=0.4
    )
    decision, meter, _ = decide(scheme, truth, engine=Doubting())
    assert np.array_equal(decision.flags, truth)
    assert (decision.decided_by == "head").sum() == 80
    assert decision.pooling.image_weights.sum() == 21
    assert (meter.runs["pools"], meter.runs["retests"]) == (3, 3)
    few, meter, _ = decide(scheme, truth_with(1, 20))
    assert meter.runs["pools"] == 0
    assert sorted(set(few.decided_by)) == ["head", "individual"]
    with pytest.raises(ValueError, match="lies below"):
        make_scheme("adaptive", (8,), clear_below=0.5, test_above=0.1)


def test_what_looks_clear_shares_larger_pools():
    """Of three bad images one is tested at once, one is doubted, and one looks clear like 80 others."""
    truth = truth_with(3, 104)
    plain, doubted, hidden = np.flatnonzero(truth)

    class Doubting(PlantedEngine):
        def head(self, features):
            output = super().head(features)
            output.logits[np.append(np.flatnonzero(~truth)[:21], doubted)] = 0.0
            output.logits[hidden] = output.logits[~truth].min()
            return output

    limits = {"test_above": 0.1, "pools_per_image": 1, "chunk": 104}
    scheme = make_scheme("adaptive", (4, 8), pool_size=4, large_below=0.005, large_pool_size=8, **limits)
    decision, meter, _ = decide(scheme, truth, engine=Doubting())
    assert np.array_equal(decision.flags, truth)
    pools, sizes = decision.pooling.pools, decision.pooling.pool_sizes
    assert (sizes[:6].sum(), sizes[:6].max()) == (22, 4)
    assert (sizes[6:].sum(), sizes[6:].max()) == (81, 8)
    assert decision.pooling.image_weights[plain] == 0
    assert doubted in pools[:6]
    assert hidden in pools[6:]
    assert decision.readings.counts[0].tolist() == [int(np.isin([doubted, hidden], p).any()) for p in pools]
    assert meter.runs["pools"] == 17
    assert meter.runs["retests"] == (decision.decided_by == "individual").sum() <= 1 + 4 + 8
    with pytest.raises(ValueError, match="large_pool_size=16, but the bundle has networks for pools of 4, 8"):
        make_scheme("adaptive", (4, 8), large_below=0.005, large_pool_size=16)
    with pytest.raises(ValueError, match="needs a large_pool_size"):
        make_scheme("adaptive", (4, 8), large_below=0.005)
    with pytest.raises(ValueError, match="not above pool_size"):
        make_scheme("adaptive", (4, 8), large_pool_size=4)


def test_adaptive_flags_nothing_on_the_word_of_pools_and_head_alone():
    """Head and pools are sure of bad images that are none; only the individual network knows better."""
    truth = truth_with(2, 100)
    fooled = np.flatnonzero(~truth)[:5]
    decision, meter, _ = decide(
        make_scheme("adaptive", (4, 8)), truth, engine=PlantedEngine(delusions=fooled)
    )
    assert np.array_equal(decision.flags, truth)
    assert (decision.pool_scores[fooled] > 0.5).all()
    assert (decision.decided_by[fooled] == "individual").all()
    assert (decision.decided_by[decision.flags] == "individual").all()
    assert meter.runs["retests"] < 30


def test_adaptive_works_without_a_head():
    truth = truth_with(3, 100)
    for bundle, options in (
        (planted_bundle(merge="max", head=False), {}),
        (planted_bundle(merge="max"), {"use_head": False}),
    ):
        decision, meter, _ = decide(make_scheme("adaptive", (8,), **options), truth, bundle=bundle)
        assert np.array_equal(decision.flags, truth)
        assert meter.runs["head"] == 0
        assert (decision.priors == 0.01).all()


def test_a_good_head_saves_retests():
    truth = truth_with(5, 100)
    _, blind, _ = decide(make_scheme("adaptive", (8,), use_head=False), truth)
    _, seeing, _ = decide(make_scheme("adaptive", (8,)), truth)
    assert seeing.runs["retests"] < blind.runs["retests"]


def test_cascade_tests_only_what_the_head_does_not_clear():
    truth = truth_with(4, 100)
    decision, meter, _ = decide(make_scheme("cascade", (8,)), truth)
    assert meter.runs["retests"] == 4
    assert set(decision.decided_by[~truth]) == {"head"}
    assert set(decision.decided_by[truth]) == {"individual"}
    at_once, cheaper, _ = decide(make_scheme("cascade", (8,), flag_above=0.3), truth)
    assert np.array_equal(at_once.flags, truth)
    assert cheaper.runs["retests"] == 0
    assert set(at_once.decided_by) == {"head"}


def test_only_images_that_a_glance_leaves_have_a_front():
    truth = truth_with(4, 100)
    engine = PlantedEngine(delusions=np.flatnonzero(~truth)[:6])
    decision, meter, _ = decide(make_scheme("glance", (8,)), truth, engine=engine)
    assert np.array_equal(decision.flags, truth)
    assert (meter.runs["glance"], meter.runs["front"], meter.runs["head"], meter.runs["retests"]) == (
        100,
        10,
        0,
        10,
    )
    assert meter.share == pytest.approx((100 * COST.glance + 10 * COST.whole) / (100 * COST.whole))
    assert engine.rows["front"] == engine.rows["individual"] == 10
    assert (decision.decided_by == "glance").sum() == 90
    with pytest.raises(ValueError, match="no calibrated glance"):
        decide(make_scheme("glance", (8,)), truth, bundle=planted_bundle(head=False))


@pytest.mark.parametrize("name", list_schemes())
@pytest.mark.parametrize("size", [1, 2, 7, 30, 99])
def test_a_short_chunk_is_decided_and_never_costs_more_than_individual_testing(name, size):
    truth = truth_with(1, size)
    decision, meter, _ = decide(make_scheme(name, (4, 8)), truth)
    assert np.array_equal(decision.flags, truth)
    if name in ("oneshot", "adaptive") and decision.pooling is None:
        assert meter.share == pytest.approx(1.0)
    if name == "oneshot":
        assert meter.share <= 1 + GATE


def test_a_short_chunk_gets_a_smaller_design():
    for size in (36, 40, 60, 90):
        decision, _, _ = decide(make_scheme("adaptive", (8,)), np.zeros(size, dtype=bool))
        assert decision.pooling.pool_count <= -(-size // 4) + 1
        assert (decision.pooling.image_weights == 2).all()


@pytest.mark.parametrize("name", ["dorfman", "oneshot", "adaptive"])
def test_unreadable_images_leave_their_places_empty_and_change_no_other_pool(name):
    scheme = make_scheme(name, (4, 8))
    size = scheme.chunk_size
    truth = truth_with(5, size)
    lost = np.array([3, 17, 60])
    kept = np.setdiff1d(np.arange(size), lost)
    whole, _, _ = decide(scheme, truth)
    rest, meter, _ = decide(scheme, truth[kept], places=kept, size=size)
    assert np.array_equal(rest.flags, truth[kept])
    assert meter.images == size - 3

    def pool_mates(decision, names):
        members = [names[pool[pool >= 0]] for pool in decision.pooling.pools]
        return sorted(tuple(sorted(set(pool) - set(lost))) for pool in members)

    assert pool_mates(rest, kept) == [pool for pool in pool_mates(whole, np.arange(size)) if pool]


def test_another_seed_gives_other_neighbours():
    truth = truth_with(3, 100)
    scheme = make_scheme("adaptive", (8,))
    first, again, other = (decide(scheme, truth, seed=seed)[0].pooling for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("none", {}, "no scheme is named 'none'. There are: adaptive, cascade, dorfman, early_exit, glance"),
        (
            "individual",
            {"pool_size": 8},
            "individual has no parameter 'pool_size'; its parameters are",
        ),
        ("adaptive", {"pool_size": 5}, "pool_size=5, but the bundle has networks for pools of 4, 8"),
        ("adaptive", {"prevalence": 0.9}, "adaptive: prevalence=0.9, but it must be"),
        ("oneshot", {"pool_size": 4}, "pools_per_image=4 with pool_size=4 makes as many pools as images"),
        ("oneshot", {"decoder": "best"}, "no decoder is named 'best'"),
        ("cascade", {"clear_below": 0.5, "flag_above": 0.2}, "flag_above=0.2 lies below"),
    ],
)
def test_wrong_choices_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_scheme(name, (4, 8), **options)


def test_the_description_of_a_scheme_holds_all_its_parameters():
    assert str(make_scheme("dorfman", (4,), recompute=True)) == (
        "dorfman(chunk=100, prevalence=0.01, pool_size=4, threshold=0.5, recompute=True)"
    )
