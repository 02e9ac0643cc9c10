import pytest
import torch
from drawn_weights import drawn
from published_networks import LITE, TORCHVISION, lite_forward, torchvision_forward, torchvision_state
from torch import nn

from poolsieve.networks import Preprocessing, SplitBackbone, list_backbones, load_backbone
from poolsieve.networks.named_backbones import _REGISTRY, _packaged_weights
from poolsieve.networks.weights import read_weights


def close(found, expected):
    scale = expected.abs().max()
    torch.testing.assert_close(found / scale, expected / scale, rtol=0, atol=2e-5)


@torch.no_grad()
def test_front_then_back_is_the_whole_network_at_every_cut_point(backbone, images):
    if backbone.name in TORCHVISION:
        whole = torchvision_forward(backbone.name, torchvision_state(backbone.name), images)
    else:
        path = _packaged_weights(backbone.name, _REGISTRY[backbone.name])
        whole = lite_forward(read_weights(path), images)
    assert whole.std() > 1e-3  # a network that died would agree with anything
    close(backbone(images), whole)
    for cut in backbone.cut_points:
        split = backbone.with_cut(cut)
        features = split.front(images)
        assert features.shape[1:] == split.feature_shape
        vectors = split.back(features)
        assert vectors.shape == (3, split.feature_width)
        close(split.final(vectors), whole)


@pytest.mark.parametrize("name", list(LITE))
@torch.no_grad()
def test_one_sided_padding_follows_the_image_size(name):
    """Odd and even sizes at the layers of stride 2, as the 240 and 260 px of lite1 and lite2 have them."""
    state = read_weights(_packaged_weights(name, _REGISTRY[name]))
    for size in (50, 76):
        images = drawn(1, 3, size, size)
        close(load_backbone(name, input_size=size)(images), lite_forward(state, images))


@pytest.mark.parametrize("name", list_backbones())
def test_sizes_are_those_published(name, structure):
    backbone = structure(name)
    entries, parameters = LITE[name] if name in LITE else TORCHVISION[name][4:6]
    assert len(backbone.state_dict()) == entries
    assert sum(p.numel() for p in backbone.parameters()) == parameters
    expected = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
    assert backbone.input_size == expected.get(name, 224)


def test_default_cuts(structure):
    assert structure("efficientnet-lite0").feature_shape == (240, 14, 14)
    paper = structure("resnext101_32x8d")
    assert paper.cut == "layer2"
    assert paper.feature_shape == (512, 28, 28)
    assert paper.cut_points == ("stem", "layer1", "layer2", "layer3", "layer4")


def test_blocks_without_skip_can_be_cut_inside(lite0):
    assert "block5.expand" in lite0.cut_points
    assert "block5.depthwise" in lite0.cut_points
    assert "block0.expand" not in lite0.cut_points  # the first block does not widen
    assert "block4.expand" not in lite0.cut_points  # a skip connection would pass by the cut


@torch.no_grad()
def test_features_inside_a_block_are_never_negative(lite0, images):
    assert lite0.front(images).min() == 0
    assert lite0.with_cut("block5").front(images).min() < 0


@torch.no_grad()
def test_segments_join_up(lite0, images):
    early = lite0.segment(None, "block3")(images)
    torch.testing.assert_close(lite0.segment("block3", lite0.cut)(early), lite0.front(images))
    torch.testing.assert_close(lite0.segment("block3", None)(early), lite0.back(lite0.front(images)))
    with pytest.raises(ValueError, match="no stage lies after 'block5' and up to 'block3'"):
        lite0.segment("block5", "block3")


def test_front_and_back_are_views_on_the_same_parameters(lite0):
    parts = [*lite0.front.parameters(), *lite0.back.parameters(), *lite0.final.parameters()]
    assert {id(p) for p in parts} == {id(p) for p in lite0.parameters()}
    assert len(parts) == len(list(lite0.parameters()))
    assert not lite0.front.training
    assert not lite0.back.training


@torch.no_grad()
def test_with_outputs_copies_the_back_and_shares_the_front(images):
    backbone = load_backbone("efficientnet-lite0", input_size=32)
    counting = backbone.with_outputs(9)
    assert counting(images).shape == (3, 9)
    before = backbone(images)
    features = counting.front(images)
    torch.testing.assert_close(counting.back(features), backbone.back(features))
    for parameter in (*counting.back.parameters(), *counting.final.parameters()):
        parameter += 1.0
    torch.testing.assert_close(backbone(images), before)
    assert {id(p) for p in counting.front.parameters()} == {id(p) for p in backbone.front.parameters()}


def test_loading_gives_evaluation_mode_and_can_be_trained():
    backbone = load_backbone("efficientnet-lite0", input_size=32)
    assert not any(module.training for module in backbone.modules())
    backbone.train()
    backbone(drawn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


def test_input_is_pixels_less_mean_over_scale(structure):
    preprocessing = structure("efficientnet-lite0").preprocessing
    pixels = torch.tensor([255.0, 127.0, 0.0])[:, None, None].expand(2, 3, 4, 4)
    expected = torch.tensor([1.0, 0.0, -127 / 128])
    torch.testing.assert_close(preprocessing(pixels)[0, :, 0, 0], expected)
    torch.testing.assert_close(preprocessing(pixels)[1, :, 3, 3], expected)
    resnet = Preprocessing()
    torch.testing.assert_close(
        resnet(pixels / 1.0)[0, 0, 0, 0], torch.tensor((1 - 0.485) / 0.229), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(ValueError, match="positive"):
        Preprocessing(scale=(1.0, 0.0, 1.0))


def test_unknown_names_list_what_exists_close_matches_first():
    with pytest.raises(ValueError, match=r"'resnext101'; there are resnext101_32x8d, .*efficientnet-lite0"):
        load_backbone("resnext101")
    assert list_backbones("*lite*") == ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
    assert list_backbones("nothing") == []


def test_unknown_cuts_list_the_cut_points():
    with pytest.raises(ValueError, match="no cut point 'layer9'; its cut points are stem, layer1, layer2"):
        load_backbone("resnet18", pretrained=False, cut="layer9")


def test_nothing_is_downloaded():
    with pytest.raises(ValueError, match=r"weights=.* or .*pretrained=False"):
        load_backbone("resnet18")


def test_an_output_without_locations_cannot_be_cut_point():
    stages = {"a": nn.Conv2d(3, 4, 3), "b": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())}
    with pytest.raises(ValueError, match="choose an earlier cut point"):
        SplitBackbone(
            "own",
            stages,
            nn.Linear(4, 2),
            cut="b",
            input_size=8,
            preprocessing=Preprocessing(),
            tail=nn.Identity(),
        )
