import pytest
import torch
from published_networks import TORCHVISION

from poolsieve.multiply_adds import MultiplyAdds
from poolsieve.networks import Gate, list_backbones, multiply_adds, stage_multiply_adds


def test_the_papers_network_and_its_figures(structure):
    backbone = structure("resnext101_32x8d")
    cost = multiply_adds(backbone)
    assert 16.4e9 < cost.whole < 16.5e9
    assert cost.front_share == pytest.approx(0.22, abs=0.005)
    f = cost.front_share
    assert f + 50 / 100 * (1 - f) == pytest.approx(0.61, abs=0.005)
    assert cost.gate == 0
    assert cost.whole == cost.front + cost.back + cost.final
    assert cost.final == 2048 * 1000


@pytest.mark.parametrize("name", list(TORCHVISION))
def test_multiply_adds_are_those_published(name, structure):
    found = multiply_adds(structure(name)).whole / 1e9
    assert found == pytest.approx(TORCHVISION[name][6], abs=0.006)


@pytest.mark.parametrize(
    ("name", "cut", "shape", "share"),
    [
        ("efficientnet-lite0", "block2", (24, 56, 56), 0.20),
        ("efficientnet-lite0", "block4", (40, 28, 28), 0.30),
        ("efficientnet-lite0", "block5.depthwise", (240, 14, 14), 0.32),
        ("efficientnet-lite0", "block8.depthwise", (480, 14, 14), 0.43),
        ("efficientnet-lite2", "block3", (24, 65, 65), 0.16),
        ("efficientnet-lite2", "block6", (48, 33, 33), 0.28),
    ],
)
def test_shares_of_the_front(name, cut, shape, share, structure):
    backbone = structure(name, cut)
    assert backbone.feature_shape == shape
    assert multiply_adds(backbone).front_share == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("name", list_backbones())
def test_the_gate_costs_about_one_percent(name, structure):
    backbone = structure(name)
    cost = multiply_adds(backbone, Gate(backbone.feature_shape[0]))
    assert 0 < cost.gate_share < 0.015


def test_shares_are_of_one_individual_test():
    cost = MultiplyAdds(front=30, back=60, final=10, gate=1)
    assert (cost.whole, cost.front_share, cost.gate_share) == (100, 0.3, 0.01)


def test_another_front_share_leaves_all_else_as_it_is():
    cost = MultiplyAdds(front=30, back=60, final=10, gate=1, glance=7)
    assert cost.with_front_share(0.22) == MultiplyAdds(front=22, back=68, final=10, gate=1, glance=7)


@pytest.mark.parametrize(
    ("part", "words"), [("individual", "a joined bundle: its individual"), ("pooled", "at several depths")]
)
def test_no_other_front_share_where_it_does_not_tell_the_cost(part, words):
    cost = MultiplyAdds(front=30, back=60, final=10, **{part: 500})
    with pytest.raises(ValueError, match=rf"0\.22 .*{words}.*plan without"):
        cost.with_front_share(0.22)


def test_counting_by_hand_and_leaving_the_network_alone(lite0):
    assert not lite0.training
    stem = stage_multiply_adds(lite0)["stem"]
    assert stem == 3 * 3 * 3 * 32 * 16 * 16  # a 3×3 kernel, 3 to 32 channels, 16×16 locations
    assert all(p.device == torch.device("cpu") for p in lite0.parameters())
