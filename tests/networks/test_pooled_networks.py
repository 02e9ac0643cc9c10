import numpy as np
import pytest
import torch
from drawn_weights import draw_weights, drawn, drawn_backbone, drawn_gate

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork, list_backbones, load_backbone
from poolsieve.networks.gate import TALLIED

POOLS = np.array([[0, 1, 2], [2, 3, 4], [4, 5, 0], [1, 3, 5]])


@pytest.fixture(params=list_backbones(), scope="module")
def backbone(request):
    """Every backbone in turn; tests leave it as it is."""
    return drawn_backbone(request.param, 32)


@pytest.fixture(scope="module")
def features(backbone):
    """Front features of six images."""
    with torch.no_grad():
        return backbone.front(drawn(6, 3, backbone.input_size, backbone.input_size))


@pytest.fixture(scope="module")
def networks(backbone, features):
    """Both merges, and with tallies, in evaluation mode; with gates that are far from constant."""
    plain = PooledNetwork(backbone, 3, merge="max")
    gated = PooledNetwork(backbone, 3, merge="gated", gate=drawn_gate(features))
    tallied = PooledNetwork(backbone, 3, merge="gated", gate=drawn_gate(features, tallies=True))
    for network in (plain, gated, tallied):
        draw_weights(network.final)
    draw_weights(tallied.tally)
    return plain.eval(), gated.eval(), tallied.eval()


@torch.no_grad()
def test_what_is_compared_here_is_alive(networks, features):
    """Gates differ from place to place, opinions and outputs from image to image."""
    _, gated, tallied = networks
    for network in (gated, tallied):
        gate, opinions = network.gate(features)
        assert gate[:, 0].std() > 0.1
        assert opinions.std() > 0.1
    for network in networks:
        assert (network(features, POOLS).logits.std(0) > 0).all()


def same(found, expected):
    scale = expected.abs().max()
    torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=5e-4)


@torch.no_grad()
def test_a_pool_of_one_image_is_that_image_alone(networks, features):
    plain, gated, tallied = networks
    alone = np.array([[j, -1, -1] for j in range(6)])
    same(plain(features, alone).logits, plain.final(plain.back(features)))
    opened = features * gated.gate(features)[0]
    same(gated(features, alone).logits, gated.final(gated.back(opened)))
    gate, logits = tallied.gate(features)
    expected = tallied.final(tallied.back(features * gate[:, :1])) + tallied.tally(gate[:, 1:])
    same(tallied(features, alone).logits, expected)
    assert logits.std() > 0.1


@torch.no_grad()
def test_tallies_add_what_looks_bad_and_an_image_named_twice_counts_once(networks, features):
    _, _, tallied = networks
    _, opinions = tallied.gate(features)
    sums = torch.stack([torch.sigmoid(opinions[[0, 3]] - t).sum() for t in TALLIED])
    gated = features * tallied.gate(features)[0][:, :1]
    vector = tallied.back(torch.maximum(gated[0], gated[3])[None])
    expected = tallied.final(vector) + tallied.tally(sums[None, :, None, None])
    for pool in ([0, 3, -1], [0, 3, 0], [3, -1, 0]):
        same(tallied(features, [pool]).logits, expected)


def test_a_new_network_with_tallies_says_what_it_would_say_without(backbone, features):
    gate = drawn_gate(features, tallies=True)
    network = PooledNetwork(backbone, 3, merge="gated", gate=gate).eval()
    said = network(features, POOLS)
    same(said.logits, network.final(said.features))
    said.logits[:, 0].sum().backward()
    assert network.tally.out.weight.grad.abs().sum() > 0


@torch.no_grad()
def test_the_binary_network_on_single_images_is_the_individual_network(lite0):
    started = lite0.with_outputs(2)  # both take this final layer over
    individual = IndividualNetwork(started).eval()
    binary = PooledNetwork(started, 3, counting=False).eval()
    features = drawn(4, *lite0.feature_shape, low=0)
    same(binary(features, [[j] for j in range(4)]).logits, individual(features))
    same(individual.embed(features), lite0.back(features))


@torch.no_grad()
def test_matrix_pooled_is_the_pools_run_one_by_one(networks, features, backbone):
    for network in networks:
        together = network(features, POOLS)
        assert together.logits.shape == (4, 4)
        assert together.features.shape == (4, backbone.feature_width)
        one_by_one = torch.cat([network(features[pool], [[0, 1, 2]]).logits for pool in POOLS])
        same(together.logits, one_by_one)
        assert together.logits.std(0).max() > 0  # the pools are not all read alike


@torch.no_grad()
def test_the_order_of_a_pools_images_changes_nothing(networks, features):
    for network in networks:
        expected = network(features, POOLS).logits
        assert torch.equal(network(features, POOLS[:, [2, 0, 1]]).logits, expected)


@torch.no_grad()
def test_a_short_pool_is_the_pool_of_only_its_images(networks, features):
    for network in networks:
        short = network(features, [[4, 1, -1]]).logits
        same(short, network(features, [[4, 1]]).logits)
        same(short, network(features, [[-1, 4, 1]]).logits)


@pytest.mark.parametrize("merge", ["max", "gated"])
@pytest.mark.parametrize("name", ["efficientnet-lite0", "resnet18", "resnext50_32x4d"])
def test_gradients_reach_every_parameter(name, merge):
    backbone = draw_weights(load_backbone(name, pretrained=False, input_size=32))
    network = draw_weights(PooledNetwork(backbone, 3, merge=merge)).train()
    features = drawn(6, *backbone.feature_shape).requires_grad_()
    outputs = network(features, POOLS)
    loss = torch.nn.functional.cross_entropy(outputs.logits, torch.tensor([0, 1, 2, 3]))
    if outputs.image_logits is not None:
        loss = loss + outputs.image_logits.square().mean()
    loss.backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
    assert network.final.weight.grad.any()
    assert features.grad.abs().sum(dim=(1, 2, 3)).all()  # every image could be fine-tuned through its pools
    if network.gate is not None:
        assert network.gate.narrow[0].weight.grad.any()


def test_networks_of_one_backbone_learn_apart(lite0):
    first, second = PooledNetwork(lite0, 8), PooledNetwork(lite0, 8)
    features = drawn(2, *lite0.feature_shape, low=0)
    with torch.no_grad():
        before = second.eval()(features, [[0, 1]]).features
        whole = lite0.back(features)
        for parameter in first.parameters():
            parameter += 1.0
        assert torch.equal(second(features, [[0, 1]]).features, before)
        assert torch.equal(lite0.back(features), whole)


def test_numbers_of_outputs(lite0):
    features = drawn(2, *lite0.feature_shape, low=0)
    assert PooledNetwork(lite0, 8).eval()(features, [[0, 1]]).logits.shape == (1, 9)
    assert PooledNetwork(lite0, 8, counting=False).eval()(features, [[0, 1]]).logits.shape == (1, 2)
    assert IndividualNetwork(lite0).eval()(features).shape == (2, 2)


def test_networks_can_share_a_gate(lite0):
    gate = Gate(lite0.feature_shape[0])
    small = PooledNetwork(lite0, 4, merge="gated", gate=gate).eval()
    large = PooledNetwork(lite0, 8, merge="gated", gate=gate).eval()
    features = drawn(3, *lite0.feature_shape, low=0)
    logits = large(features, [[0, 1, 2]]).image_logits
    assert logits.shape == (3,)
    torch.testing.assert_close(small(features, [[0, 1]]).image_logits, logits)


def test_a_frozen_backbone_still_gives_networks_that_learn(lite0):
    frozen = lite0.with_outputs(2).requires_grad_(False)
    try:
        assert all(p.requires_grad for p in PooledNetwork(frozen, 8, merge="gated").parameters())
        assert all(p.requires_grad for p in IndividualNetwork(frozen).parameters())
    finally:
        lite0.requires_grad_(True)


def test_wrong_arguments_are_errors(lite0):
    with pytest.raises(ValueError, match="up to 2 images, not 3"):
        PooledNetwork(lite0, 2)(drawn(3, *lite0.feature_shape, low=0), [[0, 1, 2]])
    with pytest.raises(ValueError, match="'max', 'gated' or 'tree', not 'mean'"):
        PooledNetwork(lite0, 2, merge="mean")
    with pytest.raises(ValueError, match="pass merge='gated'"):
        PooledNetwork(lite0, 2, gate=Gate(240))
    with pytest.raises(ValueError, match="takes 24 channels, but the front gives 240"):
        PooledNetwork(lite0, 2, merge="gated", gate=Gate(24))
    with pytest.raises(ValueError, match="at least one place"):
        PooledNetwork(lite0, 0)


def test_a_network_for_smaller_pools_has_the_weights_of_the_larger(lite0):
    features = drawn(4, *lite0.feature_shape, low=0)
    larger = PooledNetwork(lite0, 8, merge="gated").eval()
    smaller = larger.for_pools_of(3)
    assert larger.for_pools_of(8) is larger
    assert (smaller.pool_size, smaller.merge) == (3, "gated")
    assert smaller.back is larger.back and smaller.gate is larger.gate
    table = [[0, 1, 2], [3, -1, -1]]
    with torch.no_grad():
        found, whole = smaller(features, table), larger(features, table)
    assert found.logits.shape == (2, 4)
    assert torch.equal(found.logits, whole.logits[:, :4])
    assert torch.equal(found.features, whole.features)
    with pytest.raises(ValueError, match="up to 3 images, not 4"):
        smaller(features, [[0, 1, 2, 3]])


@pytest.mark.parametrize("size", [0, 9])
def test_only_smaller_pools_can_be_read_with_the_same_weights(lite0, size):
    with pytest.raises(ValueError, match=f"up to 8 images, not {size}"):
        PooledNetwork(lite0, 8).for_pools_of(size)
    with pytest.raises(ValueError, match="binary network"):
        PooledNetwork(lite0, 8, counting=False).for_pools_of(4)
