import importlib.util
import sys

import numpy as np
import pytest
from altered_bundles import copy_bundle, put, sign
from made_bundles import TINY

from poolsieve.bundles import load_bundle
from poolsieve.engines import list_engines, open_engine


def test_auto_takes_the_best_that_is_installed(made, monkeypatch):
    bundle = made("tiny-gated").bundle
    assert list_engines() == ["openvino", "onnxruntime", "torch"]
    assert open_engine(bundle).name == "openvino"
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else found(name))
    assert list_engines() == ["onnxruntime", "torch"]
    assert open_engine(bundle).name == "onnxruntime"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install openvino"):
        open_engine(bundle)


def test_an_unknown_or_missing_engine_says_what_to_do(made, monkeypatch):
    bundle = made("tiny-gated").bundle
    with pytest.raises(ValueError, match="there are auto, openvino, onnxruntime, torch"):
        open_engine(bundle, "tensorrt")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "poolsieve.engines.onnxruntime_engine", raising=False)
    with pytest.raises(ImportError, match="pip install onnxruntime"):
        open_engine(bundle, "onnxruntime")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threads": 0}, "threads is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"precision": "int2"}, "int2"),
    ],
)
def test_wrong_settings_are_refused(made, settings, words):
    with pytest.raises(ValueError, match=words):
        open_engine(made("tiny-gated").bundle, **settings)


def test_torch_says_that_it_cannot_build_a_network_of_others(made, tmp_path):
    folder = copy_bundle(made("tiny-gated").bundle.path, tmp_path / "copy")
    text = (folder / "config.json").read_text().replace('"tiny"', '"home-made"')
    put(folder / "config.json", text.encode())
    with pytest.raises(ValueError, match=r"home-made.*use another engine"):
        open_engine(load_bundle(folder), "torch")


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_a_graph_that_an_engine_cannot_read_is_named(made, tmp_path, name):
    """The right inputs, outputs and hash, but an operator that does not exist."""
    folder = copy_bundle(made("tiny-gated").bundle.path, tmp_path / "copy")
    content = (folder / "front.onnx").read_bytes()
    put(folder / "front.onnx", content.replace(b"Conv", b"Cxnv"))
    sign(folder, "front.onnx")
    engine = open_engine(load_bundle(folder), name)
    engine.prepare(["front.onnx"])  # where that is done ahead, the fault is still said to who uses the graph
    with pytest.raises(ValueError, match=r"front\.onnx"):
        engine.front(np.zeros((1, TINY, TINY, 3), np.uint8))
