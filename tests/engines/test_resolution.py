"""A bundle on images of another size, against torch on the same images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_bundle import SIZE

from poolsieve.engines import open_engine
from poolsieve.engines.resolution import at_resolution


@pytest.fixture(scope="module")
def bundle(small):
    return small


def test_half_resolution_costs_what_its_maps_are_worth(bundle):
    same = at_resolution(bundle, SIZE)
    config = bundle.config  # a glance is for the size that it was trained at
    assert same.config == replace(config, glance=None, cost=replace(config.cost, glance=0))
    half = at_resolution(bundle, SIZE // 2)
    # Maps of 7x7 and 3x3 become 3x3 (after the first convolution) and 1x1.
    _, height, width = half.config.feature_shape
    assert (height, width) == (4, 4)
    assert half.config.cost.front * 64 == bundle.config.cost.front * 16
    assert half.config.cost.back * 9 == bundle.config.cost.back * 1
    assert half.config.cost.final == bundle.config.cost.final


def test_half_resolution_runs_the_same_weights(bundle):
    half = at_resolution(bundle, SIZE // 2)
    engine = open_engine(half, "openvino", threads=1)
    pixels = np.random.default_rng(0).integers(0, 255, (9, SIZE // 2, SIZE // 2, 3), dtype=np.uint8)
    features = engine.front(pixels).features
    from safetensors.torch import load

    weights = load(bundle.read("model.safetensors"))
    names = [name for name in weights if name.endswith("first.0.weight") or name.endswith("0.weight")]
    kernel = next(weights[name] for name in names if weights[name].shape == (6, 3, 3, 3))
    config = bundle.config
    scaled = (
        torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - torch.tensor(config.mean)[:, None, None]
    ) / (torch.tensor(config.scale)[:, None, None])
    plain = torch.relu(torch.nn.functional.conv2d(scaled, kernel, stride=4) / np.sqrt(1 + 1e-5))
    np.testing.assert_allclose(features, plain.numpy(), atol=1e-4)
    head = engine.head(features)
    output = engine.pooled(features, head.gate, np.arange(9)[None, :8], 8)
    assert output.logits.shape == (1, 9)
    assert engine.individual(features).logits.shape == (9, 2)


def test_engines_and_sizes_that_cannot_do_it_say_so(bundle):
    half = at_resolution(bundle, SIZE // 2)
    pixels = np.zeros((1, SIZE // 2, SIZE // 2, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match="onnxruntime runs a bundle at its own resolution only"):
        open_engine(half, "onnxruntime", threads=1).front(pixels)
    with pytest.raises(ValueError, match="do not work at 2 px"):
        at_resolution(bundle, 2)
