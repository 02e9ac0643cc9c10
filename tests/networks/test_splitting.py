import sys
import types

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from drawn_weights import draw_weights, drawn
from torch import nn

from poolsieve.networks import PooledNetwork, Preprocessing, load_backbone, split_module


class Small(nn.Module):
    """A network whose forward is its children in a row."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.Sequential(
            nn.Sequential(nn.Conv2d(8, 12, 3), nn.ReLU()), nn.Sequential(nn.Conv2d(12, 16, 3), nn.ReLU())
        )
        self.global_pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(16, 5)

    def forward(self, images):
        return self.fc(self.global_pool(self.blocks(self.stem(images))))

    def get_classifier(self):
        return self.fc


class Hidden(Small):
    """A network that does something between its children."""

    def forward(self, images):
        return self.fc(self.global_pool(F.gelu(self.blocks(self.stem(images)) - 0.1)))


def split(module, **options):
    chosen = {
        "stages": ["stem", "blocks.0", "blocks.1"],
        "final": "fc",
        "cut": "blocks.0",
        "input_size": 24,
    } | options
    return split_module(module, chosen.pop("stages"), chosen.pop("final"), **chosen)


@torch.no_grad()
def test_any_module_by_naming_its_children():
    module = draw_weights(Small()).eval()
    backbone = split(module)
    images = drawn(2, 3, 24, 24)
    assert backbone.cut_points == ("stem", "blocks.0", "blocks.1")
    assert backbone.feature_shape == (12, 9, 9)
    assert backbone.name == "Small"
    assert backbone.preprocessing == Preprocessing()
    for cut in backbone.cut_points:
        there = backbone.with_cut(cut)
        torch.testing.assert_close(there.final(there.back(there.front(images))), module(images))
    with_pooling = split(module, stages=["stem", "blocks", "global_pool"], cut="blocks")
    torch.testing.assert_close(with_pooling(images), module(images))
    assert backbone.final.weight is module.fc.weight  # shared, not copied
    outputs = PooledNetwork(backbone, 4, merge="gated").eval()(backbone.front(images), [[0, 1]])
    assert outputs.logits.shape == (1, 5)


def test_mode_is_kept_and_nothing_is_learnt_by_splitting():
    module = Small().train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    assert split(module).training
    assert module.training
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (Small(), {"stages": ["stem", "trunk"]}, "no child 'trunk'; its children are stem, blocks"),
        (Small(), {"stages": ["stem", "blocks.1"], "cut": "stem"}, "do not fit together"),
        (Small(), {"stages": ["stem", "stem"]}, "names a child twice"),
        (Small(), {"stages": ["stem", "blocks.0"]}, "does not fit the final layer"),
        (Small(), {"final": "global_pool"}, "must be nn.Linear"),
        (Small(), {"cut": "blocks"}, "no cut point 'blocks'"),
        (Hidden(), {}, "do not compute what Hidden computes"),
    ],
)
def test_what_does_not_fit_is_an_error(module, options, message):
    with pytest.raises(ValueError, match=message):
        split(module, **options)


def test_timm_models_by_name(monkeypatch):
    def create_model(name, pretrained):
        assert (name, pretrained) == ("small_one", False)
        model = Small()
        model.pretrained_cfg = {"input_size": (3, 24, 24), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.5, 1.0)}
        return model

    timm = types.ModuleType("timm")
    timm.create_model = create_model
    timm.list_models = lambda: ["small_one", "small_two", "vast"]
    timm.is_model = lambda name: name in timm.list_models()
    monkeypatch.setitem(sys.modules, "timm", timm)
    backbone = load_backbone("timm:small_one", pretrained=False)
    assert backbone.name == "timm:small_one"
    assert backbone.cut_points == ("stem", "blocks.0", "blocks.1", "global_pool")
    assert backbone.cut == "blocks.0"
    assert backbone.input_size == 24
    assert backbone.preprocessing.scale == (63.75, 127.5, 255.0)
    with pytest.raises(
        ValueError, match=r"timm has no model 'smal_one'; names close to it: small_one, small_two"
    ):
        load_backbone("timm:smal_one", pretrained=False)


def test_without_timm_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match="timm:resnet50 needs timm"):
        load_backbone("timm:resnet50")
