"""A network that gives no numbers is an error in words under every engine, never a verdict."""

import numpy as np
import onnx
import pytest
from altered_bundles import copy_bundle, put, sign
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper, numpy_helper
from safetensors.numpy import load, save

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.engines.engine import _all_finite
from poolsieve.moderation import Moderator


def with_last_layer(folder, file, *, kind, constant):
    """Let the first output of a graph go through one more layer, with a constant that is finite itself."""
    model = onnx.load(folder / file)
    graph, output = model.graph, model.graph.output[0].name
    for node in graph.node:
        node.output[:] = ["before" if name == output else name for name in node.output]
    graph.initializer.append(numpy_helper.from_array(np.array(constant, dtype=np.float32), "constant"))
    graph.node.append(helper.make_node(kind, ["constant"], ["after"]))
    graph.node.append(helper.make_node("Add", ["before", "after"], [output]))
    put(folder / file, model.SerializeToString())
    sign(folder, file)
    return folder


@pytest.mark.parametrize(("kind", "constant"), [("Log", -1.0), ("Exp", 1e3)])
@pytest.mark.parametrize(
    "file", ["front.onnx", "head.onnx", "individual.onnx", "glance.onnx", "pooled-4.onnx"]
)
@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_outputs_that_are_not_finite_are_an_error(made, tmp_path, name, file, kind, constant):
    folder = copy_bundle(made("tiny-gated").bundle.path, tmp_path / "copy")
    with_last_layer(folder, file, kind=kind, constant=constant)
    scheme = {"glance.onnx": "glance", "pooled-4.onnx": "dorfman"}.get(file, "cascade")
    options = {"dorfman": {"pool_size": 4}, "cascade": {"clear_below": 1e-12}}.get(scheme, {})
    judge = Moderator.load(folder, engine=name, scheme=scheme, threads=1, **options)
    images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match=rf"{file} gives \w+ that are not finite.* {name}.*anew"):
        list(judge.moderate(list(images)))


def test_torch_does_not_hide_them_either(made, tmp_path):
    folder = copy_bundle(made("lite0-gated").bundle.path, tmp_path / "copy")
    file = folder / "model.safetensors"
    tensors = load(file.read_bytes())
    tensors = {
        key: value * 1e30 if value.dtype == np.float32 and value.ndim > 1 else value
        for key, value in tensors.items()
    }
    put(file, save(tensors))
    sign(folder, "model.safetensors")
    engine = open_engine(load_bundle(folder), "torch", threads=1)
    maps = np.ones((2, *engine.bundle.config.feature_shape), np.float32)
    with pytest.raises(ValueError, match=r"not finite.* torch"):
        engine.individual(maps)


@given(arrays(np.float32, st.integers(0, 40), elements=st.floats(width=32)))
def test_finite_is_what_numpy_calls_finite(values):
    assert _all_finite(values) == np.isfinite(values).all()


def test_the_largest_numbers_are_finite_though_their_sum_is_not():
    assert _all_finite(np.full((3, 2), np.finfo(np.float32).max))


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_outputs_of_another_shape_than_declared_are_an_error(made, tmp_path, name):
    """Not repeated until they fit."""
    folder = copy_bundle(made("tiny-gated").bundle.path, tmp_path / "copy")
    model = onnx.load(folder / "individual.onnx")
    graph = model.graph
    for node in graph.node:
        node.output[:] = ["before" if name == "logits" else name for name in node.output]
    graph.node.append(helper.make_node("ReduceMax", ["before"], ["logits"], keepdims=1))
    put(folder / "individual.onnx", model.SerializeToString())
    sign(folder, "individual.onnx")
    engine = open_engine(load_bundle(folder), name, threads=1)
    with pytest.raises(ValueError, match=r"individual\.onnx"):
        engine.individual(np.ones((3, *engine.bundle.config.feature_shape), np.float32))
