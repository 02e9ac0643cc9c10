import functools

import pytest
import torch
from drawn_weights import drawn
from published_networks import TORCHVISION, torchvision_state

from poolsieve.networks import list_backbones, load_backbone
from poolsieve.networks.resnet import resnet_source_key
from poolsieve.networks.weights import load_weights

SMALL = 32  # pixels; enough for every backbone to have several locations at its default cut


@pytest.fixture(scope="session")
def structure():
    """Makes shipped backbones at their own size, with shapes and no numbers."""

    @functools.cache
    def make(name, cut=None):
        with torch.device("meta"):
            return load_backbone(name, pretrained=False, cut=cut)

    return make


@pytest.fixture(params=list_backbones(), scope="session")
def backbone(request):
    """Every shipped backbone in turn with weights, for small images; tests leave it as it is."""
    if request.param not in TORCHVISION:
        return load_backbone(request.param, input_size=SMALL)
    backbone = load_backbone(request.param, pretrained=False, input_size=SMALL)
    load_weights(backbone, torchvision_state(request.param), resnet_source_key, "published layout")
    return backbone


@pytest.fixture(scope="session")
def lite0():
    return load_backbone("efficientnet-lite0", input_size=SMALL)


@pytest.fixture
def images():
    return drawn(3, 3, SMALL, SMALL, seed=1)
