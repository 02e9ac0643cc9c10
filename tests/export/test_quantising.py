"""Bundles in int8, made of others: calibrated, recorded and planned by their own outputs."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from altered_bundles import change_config, copy_bundle
from drawn_shapes import SHORT_SETTINGS, draw_task, small_backbone
from onnx import TensorProto, numpy_helper
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.cli.bundles import app
from poolsieve.engines import compare_engines, open_engine
from poolsieve.export import export_run, quantising
from poolsieve.export.bundle_writing import add_edition
from poolsieve.export.joining import join_bundles
from poolsieve.export.quantising import quantise_bundle
from poolsieve.images.datasets import load_dataset
from poolsieve.images.reading import read_image
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.statistics import auc
from poolsieve.training.run import train
from poolsieve.training.settings import GlanceSettings

SETTINGS = replace(
    SHORT_SETTINGS,
    pool_sizes=(2, 4),
    epochs=2,
    glance=GlanceSettings(stop="second", epochs=4, batch_images=16),
)
QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module", autouse=True)
def probed(tmp_path_factory):
    """Bundles are run in a child before they are opened; what is kept of that is not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture(scope="module")
def floating(task, tmp_path_factory):
    torch.set_num_threads(1)
    run, out = tmp_path_factory.mktemp("runs") / "shapes", tmp_path_factory.mktemp("bundles") / "shapes"
    train(task, run, SETTINGS, cache_dir=run / "cache", reporter=QUIET, backbone=small_backbone())
    return export_run(run, out, backbone=small_backbone(), precision="fp16")


@pytest.fixture(scope="module")
def int8(floating, task, tmp_path_factory):
    out = tmp_path_factory.mktemp("int8") / "shapes-int8"
    return quantise_bundle(floating.path, task, out, images=60, reporter=QUIET)


@pytest.fixture(scope="module")
def pixels(task):
    dataset = load_dataset(task)
    rows = dataset.of_split("test")
    return np.stack([np.asarray(read_image(dataset.files[row])) for row in rows]), dataset.labels[rows]


def outputs(bundle, images, engine="auto"):
    """Logits of all networks by name."""
    networks = open_engine(bundle, engine, threads=1)
    features = networks.front(images).features
    head = networks.head(features)
    pools = np.arange(len(images)).reshape(-1, 4)
    return {
        "head": head.logits,
        "individual": np.subtract(*networks.individual(features).logits.T[::-1]),
        "glance": networks.glance(images),
        "pools": networks.pooled(features, head.gate, pools, 4).logits.ravel(),
    }


def test_convolutions_are_in_whole_numbers_and_normalised_inside(floating, int8):
    for file in int8.config.graphs:
        graph = onnx.load_model_from_string(int8.read(file)).graph
        made_by = {name: node for node in graph.node for name in node.output}
        constants = {tensor.name: tensor for tensor in graph.initializer}
        kinds = {name: tensor.data_type for name, tensor in constants.items()}
        convolutions = [node for node in graph.node if node.op_type == "Conv"]
        before = onnx.load_model_from_string(floating.read(file)).graph.node
        assert len(convolutions) == sum(node.op_type == "Conv" for node in before)
        for node in convolutions:
            taken, weights = (made_by[name] for name in node.input[:2])
            assert taken.op_type == weights.op_type == "DequantizeLinear"
            assert kinds[weights.input[0]] == TensorProto.INT8
            stored = constants[weights.input[0]]
            largest = np.abs(numpy_helper.to_array(stored).astype(int)).max()
            # Two products of 8 and 7 bits fit into the 16 bits in which AVX2 adds them, but depthwise.
            assert largest == 127 if stored.dims[1] == 1 else largest in (63, 64)
        others = [node.op_type for node in graph.node]
        assert "BatchNormalization" not in others
        assert others.count("Cast") == (graph.input[0].name == "images")  # of the pixels
        assert not any(node.op_type == "Gemm" and node.input[1] in made_by for node in graph.node)


def test_its_networks_say_nearly_what_those_said_that_it_was_made_of(floating, int8, pixels):
    images, labels = pixels
    before, after = outputs(floating, images), outputs(int8, images)
    for name, values in before.items():
        assert not np.array_equal(after[name], values)
        assert np.corrcoef(after[name], values)[0, 1] > 0.98, name
    assert auc(after["individual"], labels) > auc(before["individual"], labels) - 0.02


def test_biases_make_up_for_what_rounding_shifts(floating, pixels, monkeypatch):
    features = open_engine(floating, threads=1).front(pixels[0]).features
    graph = floating.read("individual.onnx")

    def shift(quantised):
        found = [
            onnxruntime.InferenceSession(model).run(["vector"], {"features": features})[0].mean(axis=0)
            for model in (graph, quantised)
        ]
        return np.abs(found[1] - found[0]).mean()

    corrected = shift(quantising.quantise_graph(graph, features))
    monkeypatch.setattr(quantising, "_with_means", lambda floating, model, rows: model)
    assert corrected < 0.5 * shift(quantising.quantise_graph(graph, features))


def test_it_is_whole_smaller_and_calibrated_recorded_and_planned_by_its_own_outputs(floating, int8, task):
    assert verify_bundle(int8.path) == []
    assert int8.config.precision == "int8"
    assert int8.has_recordings and (int8.path / "plans.json").is_file()
    assert not int8.has_weights
    for name in ("individual", "head", "glance"):
        assert getattr(int8.calibration, name) != getattr(floating.calibration, name)
    assert sorted(int8.calibration.counting) == [2, 4]
    assert f"made of the bundle `shapes` (hash {floating.hash[:16]})" in (int8.path / "README.md").read_text()
    assert not list(int8.path.parent.glob(".*"))
    assert (int8.config.cost, int8.config.pool_sizes) == (floating.config.cost, floating.config.pool_sizes)


@pytest.mark.parametrize("scheme", ["individual", "cascade", "glance", "dorfman", "auto"])
def test_it_moderates(int8, task, scheme):
    judge = Moderator.load(int8.path, scheme=scheme, threads=1, seed=0)
    found = [verdict.status for verdict in judge.moderate(task / "test" / "flagged")]
    assert found.count("flagged") >= 20


def test_engines_agree_on_it(int8, pixels):
    comparison = compare_engines(int8)
    assert not comparison.problems() and comparison.differences["onnxruntime"] > 0
    first, second = (outputs(int8, pixels[0], engine) for engine in ("openvino", "onnxruntime"))
    assert np.corrcoef(first["individual"], second["individual"])[0, 1] > 0.995


def test_networks_that_see_less_are_refused(floating, task, tmp_path, monkeypatch):
    black = quantising.quantise_graph
    # Ranges that were seen on black images only are far too narrow for others.
    monkeypatch.setattr(quantising, "quantise_graph", lambda graph, rows: black(graph, rows[:4] * 0))
    with pytest.raises(ValueError, match=r"falls from .* in int8, by more than 0\.01"):
        quantise_bundle(floating.path, task, tmp_path / "new", images=8, reporter=QUIET)
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_holds_it_as_its_edition(floating, int8, task, tmp_path):
    folder = copy_bundle(floating.path, tmp_path / "shapes")
    run = CliRunner().invoke(app, ["quantise", str(folder), str(task), "--images", "60"])
    assert run.exit_code == 0, run.output
    bundle = load_bundle(folder)
    edition = bundle.edition("int8")
    assert verify_bundle(folder) == [] and edition.has_recordings
    for graph in int8.config.graphs:  # as it is made on its own
        assert edition.read(graph) == int8.read(graph)
    assert not list(folder.glob(".*"))
    judge = Moderator.load(folder, scheme="individual", threads=1, seed=0, precision="int8")
    alone = Moderator.load(int8.path, scheme="individual", threads=1, seed=0)
    images = task / "test" / "flagged"
    assert [one.score for one in judge.moderate(images)] == [one.score for one in alone.moderate(images)]


def test_editions_are_left_out_of_what_is_made_of_a_bundle_and_replaced_in_it(floating, task, tmp_path):
    folder = copy_bundle(floating.path, tmp_path / "shapes")
    draft = copy_bundle(folder, tmp_path / "draft")
    change_config(draft, readings="binary")
    binary = add_edition(folder, "binary", draft)
    (folder / ".int8.part").mkdir()  # of a command that was killed
    with pytest.raises(ValueError, match="an edition, which holds none itself"):
        quantise_bundle(binary.path, task, images=20, reporter=QUIET)
    made = [quantise_bundle(folder, task, images=number, reporter=QUIET) for number in (20, 40)]
    held = load_bundle(folder)
    assert held.config.editions == ("int8", "binary")
    assert held.edition("int8").hash == made[1].hash != made[0].hash
    assert verify_bundle(folder) == []
    alone = quantise_bundle(folder, task, tmp_path / "new", images=20, reporter=QUIET)
    assert alone.config.editions == () and not (alone.path / "binary").exists()


def test_what_cannot_be_is_refused(floating, int8, task, tmp_path):
    new = tmp_path / "new"
    with pytest.raises(ValueError, match="int8 already"):
        quantise_bundle(int8.path, task, new, reporter=QUIET)
    with pytest.raises(ValueError, match="firearms is not to be changed; give --out"):
        quantise_bundle("firearms", task, reporter=QUIET)
    with pytest.raises(ValueError, match="exists already"):
        quantise_bundle(floating.path, task, int8.path, reporter=QUIET)
    with pytest.raises(ValueError, match="join the bundles before that"):
        join_bundles(int8.path, int8.path, task, new, reporter=QUIET)
    assert not new.exists()


def test_the_command_says_what_was_made(floating, task, tmp_path):
    out = tmp_path / "new"
    done = CliRunner().invoke(
        app, ["quantise", str(floating.path), str(task), "--out", str(out), "--images", "20"]
    )
    assert done.exit_code == 0, done.output
    assert "weights int8" in done.output
    assert replace(load_bundle(out).config, files={}).precision == "int8"
