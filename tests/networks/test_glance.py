"""The glance is a small network of its own on shrunken images."""

import pytest
import torch
from drawn_weights import drawn
from torch.nn import functional

from poolsieve.networks import GlanceNetwork, load_backbone, multiply_adds


@pytest.fixture(scope="module")
def lite0():
    return load_backbone("efficientnet-lite0", input_size=128).eval()


@pytest.fixture(scope="module")
def images():
    return drawn(2, 3, 128, 128)


def test_it_judges_the_shrunken_image(lite0, images):
    glance = GlanceNetwork(lite0, shrink=2, stop="block10").eval()
    with torch.no_grad():
        logits = glance(images)
        maps = lite0.eval().segment(None, "block10")(functional.avg_pool2d(images, 2))
        by_hand = glance.final(maps.mean(dim=(2, 3)))[:, 0]
    assert logits.shape == (len(images),)
    torch.testing.assert_close(logits, by_hand)


def test_all_of_a_backbone_ends_in_its_own_vector(lite0, images):
    glance = GlanceNetwork(lite0, shrink=2).eval()
    assert glance.final.in_features == lite0.feature_width
    with torch.no_grad():
        assert torch.equal(glance(images), glance.judge(glance.embed(images)))


def test_half_the_size_costs_about_a_quarter(lite0):
    glance = GlanceNetwork(lite0, shrink=2)
    cost = multiply_adds(lite0, glance=glance)
    assert 0.2 < cost.glance / cost.whole < 0.3
    assert multiply_adds(lite0).glance == 0


def test_it_learns_apart_from_the_backbone(lite0):
    glance = GlanceNetwork(lite0, stop="block1")
    before = next(lite0.parameters()).detach().clone()
    with torch.no_grad():
        next(glance.parameters()).add_(1.0)
    assert torch.equal(next(lite0.parameters()), before)


@pytest.mark.parametrize("shrink", [0, 5])
def test_images_must_shrink_evenly(lite0, shrink):
    with pytest.raises(ValueError, match="must divide"):
        GlanceNetwork(lite0, shrink=shrink)


def test_it_ends_at_a_stage_that_there_is(lite0):
    with pytest.raises(ValueError, match="no cut point"):
        GlanceNetwork(lite0, stop="nowhere")


def test_images_too_small_for_the_network_are_refused(lite0):
    with pytest.raises(ValueError, match="too small for a glance"):
        GlanceNetwork(lite0, shrink=32)
