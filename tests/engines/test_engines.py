"""Every engine gives what the trained networks give, for any number of images and pools."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from poolsieve.engines import compare_engines, list_engines, open_engine
from poolsieve.export.graphs import with_stored_precision

IMAGES = 9
CLOSE = 1e-3
"""Largest difference of any output; logits here are of size 1 to 10."""


def noise(size, images=IMAGES):
    return np.random.default_rng(3).integers(0, 256, (images, size, size, 3), dtype=np.uint8)


def pools_for(size):
    """Full pools, a short one with its empty place in front, and a pool of one."""
    rng = np.random.default_rng(4)
    pools = np.array([rng.choice(IMAGES, size, replace=False) for _ in range(7)])
    pools[2, 0] = -1
    pools[4, 1:] = -1
    return pools


@torch.no_grad()
def by_hand(model, images):
    """What the networks of the training run say."""
    backbone = model.backbone
    pixels = backbone.preprocessing(torch.from_numpy(images).permute(0, 3, 1, 2).float())
    features = backbone.front(pixels)
    gate, head = model.gate(features)
    outputs = {"features": features, "gate": gate, "head": head, "individual": model.individual(features)}
    outputs["vectors"] = model.individual.embed(features)
    outputs["glance"] = model.glance(pixels)
    for size, network in model.counting.items():
        result = network(features, pools_for(size))
        outputs[f"pools of {size}"], outputs[f"vectors of {size}"] = result.logits, result.features
    return {name: value.numpy() for name, value in outputs.items()}


def by_engine(engine, images):
    features = engine.front(images).features
    head, individual = engine.head(features), engine.individual(features)
    outputs = {"features": features, "gate": head.gate, "head": head.logits}
    outputs |= {"individual": individual.logits, "vectors": individual.vectors}
    outputs["glance"] = engine.glance(images)
    gate = head.gate if engine.bundle.config.merge == "gated" else None
    for size in engine.bundle.config.pool_sizes:
        result = engine.pooled(features, gate, pools_for(size), size)
        outputs[f"pools of {size}"], outputs[f"vectors of {size}"] = result.logits, result.vectors
    return outputs


def largest_difference(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].shape == expected[name].shape, name
        assert found[name].dtype == np.float32
    return {name: float(np.abs(found[name] - expected[name]).max()) for name in expected}


@pytest.mark.parametrize("name", ["openvino", "onnxruntime", "torch"])
def test_every_engine_gives_what_the_networks_give(case, name, capsys):
    if name == "torch" and case.bundle.config.backbone == "tiny":
        pytest.skip("torch can rebuild only backbones that have a name")
    images = noise(case.bundle.config.input_size)
    stored = by_hand(with_stored_precision(case.model, case.bundle.config.precision), images)
    assert max(float(np.abs(stored[key]).max()) for key in stored if key.startswith("pools")) > 0.5
    found = by_engine(open_engine(case.bundle, name, threads=1), images)
    differences = largest_difference(found, stored)
    with capsys.disabled():
        shown = ", ".join(f"{key} {value:.1e}" for key, value in differences.items())
        print(f"\n{case.bundle.name} on {name}: largest difference {shown}")
    assert max(differences.values()) < CLOSE
    if case.bundle.config.precision == "fp16":
        trained = by_hand(case.model, images)
        for key, difference in largest_difference(found, trained).items():
            assert difference < 0.02 * float(np.abs(trained[key]).max()), key
        assert not np.array_equal(trained["individual"], stored["individual"])


def test_engines_agree_with_each_other_on_rounded_weights(made, capsys):
    bundle = made("resnet18-max-fp16").bundle
    comparison = compare_engines(bundle)
    with capsys.disabled():
        print(f"\n{bundle.name}: {comparison}")
    assert comparison.reference == list_engines()[0] == "openvino"
    assert set(comparison.differences) == {"onnxruntime", "torch"}
    assert max(comparison.differences.values()) < 1e-4
    assert comparison.problems() == []


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_the_batch_size_changes_nothing(made, name):
    bundle = made("tiny-gated").bundle
    images = noise(bundle.config.input_size)
    reference = by_engine(open_engine(bundle, name, threads=1, batch_size=64), images)
    for batch_size in (1, 4):
        found = by_engine(open_engine(bundle, name, threads=1, batch_size=batch_size), images)
        assert max(largest_difference(found, reference).values()) < 1e-4


@pytest.mark.parametrize("name", ["openvino", "onnxruntime", "torch"])
def test_the_same_images_give_the_same_bits(made, name):
    """Else a run that was resumed could end with other records than one that was not."""
    bundle = made("lite0-gated").bundle
    images = noise(bundle.config.input_size)
    first, second = (by_engine(open_engine(bundle, name), images) for _ in range(2))
    assert set(largest_difference(first, second).values()) == {0.0}


@pytest.mark.parametrize("name", ["openvino", "onnxruntime", "torch"])
def test_graphs_may_be_compiled_ahead(made, name):
    bundle = made("lite0-gated").bundle
    images = noise(bundle.config.input_size)
    reference = by_engine(open_engine(bundle, name, threads=1), images)
    engine = open_engine(bundle, name, threads=1)
    for files in (["front.onnx", "head.onnx", "pooled-4.onnx"], ["front.onnx", "individual.onnx"]):
        engine.prepare(files)
    assert set(largest_difference(by_engine(engine, images), reference).values()) == {0.0}


def test_wrong_arguments_are_refused_in_words(made):
    bundle, plain = made("tiny-gated").bundle, made("resnet18-max-fp16").bundle
    engine = open_engine(bundle)
    images = noise(bundle.config.input_size, 3)
    features = engine.front(images).features
    gate = engine.head(features).gate
    for wrong in (images.astype(np.float32), images[:, :16], images[0], images[..., 0]):
        with pytest.raises(ValueError, match="takes images uint8"):
            engine.front(wrong)
    with pytest.raises(ValueError, match="takes features float32"):
        engine.individual(features[:, :5])
    for pools, words in (
        ([[0, 3]], "image 3, but there are features of 3"),
        ([[0, -2]], "image -2"),
        ([[-1, -1]], "pool 0 holds no image"),
        ([[0, 1, 2, 0, 1]], "up to 4"),
        ([0, 1], "integer table"),
        ([[0.0, 1.0]], "integer table"),
    ):
        with pytest.raises(ValueError, match=words):
            engine.pooled(features, gate, pools, 4)
    with pytest.raises(ValueError, match="pools of 2, 4, not of 3"):
        engine.pooled(features, gate, [[0, 1]], 3)
    with pytest.raises(ValueError, match="give the gate"):
        engine.pooled(features, None, [[0, 1]], 4)
    with pytest.raises(ValueError, match="gates of 2"):
        engine.pooled(features, gate[:2], [[0, 1]], 4)
    maps = np.zeros((2, *plain.config.feature_shape), np.float32)
    with pytest.raises(ValueError, match="give no gate"):
        open_engine(plain).pooled(maps, maps[:, :1], [[0, 1]], 3)


@pytest.mark.parametrize("name", ["torch", "openvino"])
def test_half_precision_is_close_or_refused(made, name):
    bundle = made("resnet18-max-fp16").bundle
    exact = open_engine(bundle, name, threads=1)
    features = exact.front(noise(bundle.config.input_size, 2)).features
    logits = exact.individual(features).logits
    try:
        low = open_engine(bundle, name, threads=1, precision="low")
    except ValueError as error:  # as OpenVINO on most processors, and both where the instructions die
        assert "use precision='fp32'" in str(error)
    else:
        assert 0 < np.abs(low.individual(features).logits - logits).max() < 0.05 * np.abs(logits).max()


def test_a_bundle_runs_without_torch(made):
    """Moderating needs neither torch nor onnx, not even by accident."""
    code = """
import sys
import numpy as np
from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
engine = open_engine(load_bundle(sys.argv[1]), threads=1)
features = engine.front(np.zeros((1, 64, 64, 3), np.uint8)).features
print(engine.name, engine.individual(features).logits.shape)
print([name for name in ("torch", "onnx", "onnxscript", "sklearn") if name in sys.modules])
"""
    path = made("lite0-gated").bundle.path
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["openvino (1, 2)", "[]"], done.stderr
