"""Design 3 of Neural Group Testing: pools merged at several depths."""

import numpy as np
import pytest
import torch
from drawn_weights import draw_weights, drawn
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.designs import NO_IMAGE
from poolsieve.designs.pool_pairs import check_pairs, pair_places
from poolsieve.multiply_adds import MultiplyAdds
from poolsieve.networks import PooledNetwork, load_backbone, multiply_adds, stage_multiply_adds
from poolsieve.schemes.cost_model import POOLS, RETESTS, Work
from poolsieve.training.gated_maximum import merge_disjoint

CUT = "block3"
TREES = {"two depths": ("block7",), "three depths": ("block5", "block8")}


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", input_size=32).with_cut(CUT)


@pytest.fixture(params=TREES)
def network(request, backbone):
    network = PooledNetwork(backbone, 8, merge="tree", again=TREES[request.param])
    draw_weights(network.final)
    return network.eval()


@pytest.fixture(scope="module")
def features(backbone):
    with torch.no_grad():
        return backbone.front(drawn(20, 3, 32, 32))


def by_hand(backbone, network, again, maps):
    """Through the network stage by stage, from the maps of the first merge on; lists are merged in pairs."""
    points = backbone.cut_points[backbone.cut_points.index(CUT) + 1 :]
    for point, block in zip(points, network.back, strict=False):
        maps = [block(one[None])[0] for one in maps]
        if point == again[-1]:
            maps = [torch.stack(maps).amax(dim=0)]
        elif point in again:
            maps = [torch.maximum(one, other) for one, other in zip(maps[::2], maps[1::2], strict=True)]
    (left,) = maps
    return network.final(network.back[-1](left[None]))[0]


@torch.no_grad()
def test_a_tree_is_pairs_then_pairs_then_what_is_left(backbone, network, features):
    pools = np.random.default_rng(0).permuted(np.tile(np.arange(20), (3, 1)), axis=1)[:, :8]
    again = next(again for again in TREES.values() if len(again) == len(network.back.again))
    found = network(features, pools).logits
    assert (found.std(0) > 0).all()
    for logits, pool in zip(found, pools, strict=True):
        first = [torch.maximum(features[a], features[b]) for a, b in pool.reshape(4, 2)]
        torch.testing.assert_close(logits, by_hand(backbone, network, again, first), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_empty_places_say_nothing(network, features):
    """A pool of three: what is missing repeats what it is merged with."""
    spelt_out = {1: [4] * 8, 2: [4, 7] * 4, 3: [4, 7, 9, 9] * 2, 5: [4, 7, 9, 2, 6, 6, 6, 6]}
    for size, whole in spelt_out.items():
        short = [[4, 7, 9, 2, 6][:size]]
        padded = [short[0] + [NO_IMAGE] * (8 - size)]
        expected = network(features, [whole]).logits
        for pool in (short, padded):
            torch.testing.assert_close(network(features, pool).logits, expected, rtol=1e-4, atol=1e-4)


@given(depths=st.integers(2, 4), rest=st.integers(2, 3), seed=st.integers(0, 999), missing=st.floats(0, 0.95))
def test_filling_places_changes_no_maximum_at_any_depth(depths, rest, seed, missing):
    rng, size = np.random.default_rng(seed), 2 ** (depths - 1) * rest
    pools = rng.integers(0, 50, (4, size))
    pools[rng.random(pools.shape) < missing] = NO_IMAGE
    pools[:, rng.integers(size)] = 3  # no pool is empty
    filled = pair_places(pools, size, depths).reshape(4, size)
    assert np.array_equal(filled[pools != NO_IMAGE], pools[pools != NO_IMAGE])
    assert (filled != NO_IMAGE).all()
    for depth in range(depths):
        width = 2 ** (depth + 1) if depth < depths - 1 else size
        for before, after in zip(pools.reshape(-1, width), filled.reshape(-1, width), strict=True):
            if (before != NO_IMAGE).any():
                assert set(after) == set(before) - {NO_IMAGE}


@torch.no_grad()
def test_the_pools_of_a_training_step_are_merged_alike(network, features):
    pools = np.arange(16).reshape(2, 8)
    merged, sums, opinions = merge_disjoint(network, features[pools.T.ravel()], 8)
    assert sums is None and opinions is None
    torch.testing.assert_close(network.back(merged), network(features, pools).features, rtol=1e-4, atol=1e-4)


def test_gradients_reach_all_images_of_a_pool(network, features):
    images = features.clone().requires_grad_()
    network(images, np.arange(8)[None]).logits.sum().backward()
    reached = images.grad.abs().sum(dim=(1, 2, 3)) > 0
    assert reached[:8].all() and not reached[8:].any()


def test_it_starts_from_the_weights_of_a_back_that_merges_once(backbone, network):
    once = PooledNetwork(backbone, 8)
    draw_weights(once.back)
    network.back.load_state_dict(once.back.state_dict())
    assert all(map(torch.equal, network.back.state_dict().values(), once.back.state_dict().values()))


@pytest.mark.parametrize("again", TREES.values(), ids=TREES)
def test_its_cost_is_that_of_every_block_as_often_as_it_runs(backbone, again):
    tree = PooledNetwork(backbone, 8, merge="tree", again=again).back
    cost, plain = multiply_adds(backbone, tree=tree), multiply_adds(backbone)
    maps, expected = 4, 0
    for point, one in list(stage_multiply_adds(backbone).items())[backbone.cut_points.index(CUT) + 1 :]:
        expected += maps * one
        if point in again:
            maps = 1 if point == again[-1] else maps // 2
    assert cost.pooled == expected + cost.final > plain.back + plain.final
    assert MultiplyAdds(**{**vars(cost), "pooled": 0}) == plain
    assert POOLS.cost(cost) == cost.pooled
    assert POOLS.cost(plain) == RETESTS.cost(cost) == plain.back + plain.final
    work = Work(cost, images=8)
    work.runs |= {"front": 8, "pools": 1}
    assert work.multiply_adds == 8 * cost.front + cost.pooled


def test_design_3_costs_what_liang_and_zou_count(structure):
    """TREE024 of ResNeXt-101 takes 33.25 G multiply-adds for eight images by their count, design 2 42.06."""
    backbone = structure("resnext101_32x8d", "layer1")
    with torch.device("meta"):
        tree = PooledNetwork(backbone, 8, merge="tree", again=("layer2",)).back
    cost = multiply_adds(backbone, tree=tree)
    assert (8 * cost.front + cost.pooled) / 1e9 == pytest.approx(33.25, rel=0.02)
    later = multiply_adds(structure("resnext101_32x8d", "layer2"))
    assert (8 * later.front + later.back + later.final) / 1e9 == pytest.approx(42.06, rel=0.02)


@pytest.mark.parametrize(
    ("size", "again", "reason"),
    [
        (8, (), "behind block3, in order: block4"),
        (8, ("block2",), "not at block2"),
        (8, ("block8", "block7"), "not at block8, block7"),
        (8, ("block6", "block7", "block8"), "pools of 8 cannot be merged at 4 depths"),
        (6, ("block5", "block8"), "multiple of 4 and at least 8"),
        (2, ("block8",), "multiple of 2 and at least 4"),
    ],
)
def test_what_is_no_tree_is_refused(backbone, size, again, reason):
    with pytest.raises(ValueError, match=reason):
        PooledNetwork(backbone, size, merge="tree", again=again)


def test_a_tree_has_no_gate_and_one_size(backbone, network):
    with pytest.raises(ValueError, match="only merge='tree' merges again"):
        PooledNetwork(backbone, 8, again=("block8",))
    with pytest.raises(ValueError, match="pools of one size"):
        network.for_pools_of(4)
    with pytest.raises(ValueError, match="at least two depths"):
        check_pairs(8, 1)
