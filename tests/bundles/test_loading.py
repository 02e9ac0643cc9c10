"""A bundle that is not whole is refused by a message that names the file."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from altered_bundles import change_config, copy_bundle, put, sign
from onnx import numpy_helper
from safetensors.numpy import load_file, save

from poolsieve.bundles import list_bundles, load_bundle, verify_bundle
from poolsieve.bundles.config import FORMAT_VERSION

FILES = (
    "front.onnx",
    "head.onnx",
    "individual.onnx",
    "pooled-2.onnx",
    "pooled-4.onnx",
    "glance.onnx",
    "model.safetensors",
    "calibration.json",
    "README.md",
)


def refused(folder, *words):
    with pytest.raises(ValueError) as caught:
        load_bundle(folder)
    for word in words:
        assert word in str(caught.value)
    assert str(caught.value) in verify_bundle(folder)


def test_a_whole_bundle_is_loaded_with_all_that_it_says(folder, tiny_bundle):
    assert verify_bundle(folder) == []
    bundle = load_bundle(folder)
    assert bundle.hash == tiny_bundle.hash
    assert bundle.config == tiny_bundle.config
    assert set(bundle.config.files) == set(FILES)
    assert bundle.config.pool_sizes == (2, 4) == tuple(bundle.calibration.counting)
    assert bundle.config.training_prior[2] == pytest.approx((40 / 76, 24 / 76, 12 / 76))


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_is_found(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    put(folder / name, bytes(content))
    refused(folder, str(folder / name), "hash")


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_found(folder, name):
    put(folder / name, (folder / name).read_bytes()[:-7])
    refused(folder, str(folder / name), "bytes")
    (folder / name).unlink()
    refused(folder, str(folder / name), "missing")


def test_a_file_that_changes_after_loading_is_not_used(folder):
    bundle = load_bundle(folder)
    put(folder / "front.onnx", (folder / "head.onnx").read_bytes())
    with pytest.raises(ValueError, match=r"front\.onnx is damaged"):
        bundle.read("front.onnx")


def test_all_problems_are_listed_by_verify(folder):
    (folder / "head.onnx").unlink()
    put(folder / "README.md", b"")
    put(folder / "pooled-3.onnx", b"")
    found = "\n".join(verify_bundle(folder))
    assert found.count("\n") == 2
    assert "head.onnx is missing" in found
    assert "README.md is damaged" in found
    assert "pooled-3.onnx does not belong" in found


def test_hashes_for_wrong_content_do_not_help(folder):
    """What is signed must still be a graph of the right shape, with weights that are numbers."""
    put(folder / "individual.onnx", (folder / "pooled-2.onnx").read_bytes())
    sign(folder, "individual.onnx")
    refused(folder, "individual.onnx", "merged float32", "features float32")
    put(folder / "individual.onnx", b"PK\x03\x04 not a graph")
    sign(folder, "individual.onnx")
    refused(folder, "individual.onnx", "not an ONNX model")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_found_in_graphs_and_weight_file(folder, tmp_path, value):
    model = onnx.load(folder / "pooled-4.onnx")
    position, name = next((k, t.name) for k, t in enumerate(model.graph.initializer) if len(t.dims) == 4)
    values = numpy_helper.to_array(model.graph.initializer[position]).copy()
    values.flat[-1] = value
    model.graph.initializer[position].CopyFrom(numpy_helper.from_array(values, name))
    put(folder / "pooled-4.onnx", model.SerializeToString())
    sign(folder, "pooled-4.onnx")
    refused(folder, "pooled-4.onnx", name, "not finite")

    other = copy_bundle(folder, tmp_path / "other")
    tensors = load_file(folder / "model.safetensors")
    tensors["gate.trust"] = np.array(value, dtype=np.float32)
    put(other / "pooled-4.onnx", b"")
    put(other / "model.safetensors", save(tensors))
    sign(other, "model.safetensors")
    assert any("gate.trust" in line and "not finite" in line for line in verify_bundle(other))


def test_weights_in_another_file_are_refused(folder):
    """A graph could otherwise make an engine read any file of the machine."""
    model = onnx.load(folder / "front.onnx")
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value="../../etc/passwd")
    put(folder / "front.onnx", model.SerializeToString())
    sign(folder, "front.onnx")
    refused(folder, "front.onnx", "another file")


def test_a_newer_format_says_what_to_do(folder):
    change_config(folder, format_version=FORMAT_VERSION + 1)
    refused(folder, "config.json", f"format_version is {FORMAT_VERSION + 1}", "upgrade")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"format_version": "1"}, "format_version"),
        ({"kind": "oracle"}, "kind"),
        ({"merge": "sum"}, "merge"),
        ({"input_size": -32}, "input_size"),
        ({"input_size": 64}, "front.onnx"),
        ({"feature_shape": [6, 8]}, "feature_shape"),
        ({"feature_shape": [6, 9, 9]}, "front.onnx"),
        ({"feature_width": 9}, "individual.onnx"),
        ({"pool_sizes": [4, 2]}, "ascending"),
        ({"pool_sizes": []}, "pool_sizes"),
        ({"mean": [1, 2, None]}, "mean"),
        ({"scale": [1, 0, 1]}, "scale"),
        ({"cost": {"front": 1, "back": 2, "final": 3}}, "cost.gate is missing"),
        ({"training_prior": {"2": [1, 0, 0]}}, "training_prior"),
        ({"training_prior": {"2": [1, 0, 0], "4": [1, 0, 0]}}, "training_prior.4"),
        ({"files": {}}, "front.onnx"),
        ({"files": {"../../secret": {"sha256": "0" * 64, "bytes": 1}}}, "secret"),
    ],
)
def test_a_wrong_configuration_is_refused(folder, changes, word):
    change_config(folder, **changes)
    refused(folder, word)


@pytest.mark.parametrize(
    "name",
    [
        *("glance", "counting", "tallies", "training_shapes", "readings", "shrink", "again"),
        *("cost.glance", "cost.individual", "cost.pooled"),
    ],
)
def test_a_configuration_that_leaves_something_out_is_refused(folder, name):
    values = json.loads((folder / "config.json").read_text())
    *outer, last = name.split(".")
    del (values[outer[0]] if outer else values)[last]
    put(folder / "config.json", json.dumps(values).encode())
    refused(folder, "config.json", f"{name} is missing")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"settings": {}}', b"\xff\xfe", b"[" * 100_000])
def test_a_configuration_that_is_none_is_refused(folder, content):
    put(folder / "config.json", content)
    refused(folder, "config.json")


def test_a_calibration_of_other_networks_is_refused(folder):
    values = json.loads((folder / "calibration.json").read_text())
    del values["counting"]["4"]
    put(folder / "calibration.json", json.dumps(values).encode())
    sign(folder, "calibration.json")
    refused(folder, "calibration.json", "[2]", "[2, 4]")
    values["counting"]["4"] = values["counting"]["2"]
    put(folder / "calibration.json", json.dumps(values).encode())
    sign(folder, "calibration.json")
    refused(folder, "calibration.json", "pools of 4", "3 outputs")


def test_a_calibration_of_a_wrong_glance_or_without_end_is_refused(folder):
    values = json.loads((folder / "calibration.json").read_text())
    values["glance"] = values["counting"]["2"]["scaling"]
    put(folder / "calibration.json", json.dumps(values).encode())
    sign(folder, "calibration.json")
    refused(folder, "calibration.json", "glance is for 3 outputs")
    put(folder / "calibration.json", b"[" * 100_000)
    sign(folder, "calibration.json")
    refused(folder, "calibration.json")


def test_foreign_folders_and_names_are_refused(tmp_path, tiny_run):
    with pytest.raises(ValueError, match=r"no config\.json"):
        load_bundle(tmp_path)
    with pytest.raises(ValueError, match="no bundle 'nothing-of-the-kind'"):
        load_bundle("nothing-of-the-kind")
    with pytest.raises(ValueError, match="bundles export"):
        load_bundle(tiny_run)


def test_bundles_are_listed_and_runs_are_not(tiny_bundle, tiny_run):
    assert tiny_run.parent == tiny_bundle.path.parent
    assert list_bundles([tiny_run.parent])[-1:] == [tiny_bundle.path]
    with pytest.raises(ValueError, match="no such folder"):
        list_bundles([tiny_run.parent / "missing"])


def test_loading_imports_neither_torch_nor_onnx(folder):
    code = (
        "import sys; from poolsieve.bundles import load_bundle; load_bundle(sys.argv[1]); "
        "print([name for name in ('torch', 'onnx', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
