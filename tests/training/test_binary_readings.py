"""Networks that tell whether a pool is clean (BPNN, BMPNN): trained, bundled, moderated and evaluated."""

import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from altered_bundles import copy_bundle
from drawn_shapes import small_backbone
from drawn_weights import draw_weights, drawn
from onnx import numpy_helper
from safetensors.numpy import load_file

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.engines import open_engine
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.competitors import COMPETITORS
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.export import bundle_writing, export_run
from poolsieve.export.bundle_writing import add_files
from poolsieve.images.datasets import load_dataset
from poolsieve.moderation import Moderator
from poolsieve.networks import Gate, PooledNetwork
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.schemes import make_scheme
from poolsieve.training import Optimization, TrainingSettings
from poolsieve.training.run import train
from poolsieve.training.sampling import pool_shares

SETTINGS = TrainingSettings(
    pool_sizes=(2, 4),
    readings="binary",
    views=2,
    individual_epochs=3,
    epochs=3,
    pools_per_epoch=200,
    batch_images=16,
    batch_pools=16,
    validation_pools=100,
    test_pools=200,
    optimization=Optimization(
        learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0
    ),
)


@pytest.mark.parametrize("tallies", [False, True])
def test_a_binary_network_in_the_form_of_a_counting_one_says_the_same(tallies):
    backbone = small_backbone()
    gate = draw_weights(Gate(16, 8, tallies=tallies))
    network = draw_weights(PooledNetwork(backbone, 4, merge="gated", gate=gate)).eval()
    features, pools = drawn(9, 16, 8, 8), np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 0, 4, -1]])
    before = network(features, pools).logits
    shares = pool_shares(4)
    network.read_binary(shares)
    after = network(features, pools).logits.detach().numpy()
    assert np.array_equal(after[:, :2], before[:, :2].detach().numpy())
    assert (after.argmax(axis=1) == before[:, :2].argmax(dim=1).numpy()).all()
    # With the shares of training pools divided out, one bad image is as likely as any other number.
    likelihoods = after - np.log(shares)
    np.testing.assert_allclose(likelihoods[:, 1:], likelihoods[:, 1:2].repeat(4, axis=1), atol=2e-3)


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
    """The folder of a run, its results and its bundle."""
    root = tmp_path_factory.mktemp("binary")
    torch.set_num_threads(1)
    quiet = Reporter(quiet=True)
    results = train(
        task, root / "run", SETTINGS, cache_dir=root / "cache", reporter=quiet, backbone=small_backbone()
    )
    return root, results, export_run(root / "run", root / "bundle", backbone=small_backbone())


def test_pools_are_told_clean_or_not_and_never_counted(run):
    root, results, _ = run
    network = load_model(root / "run", small_backbone()).counting[4]
    assert torch.equal(network.final.weight[2:], network.final.weight[1:2].expand(3, -1))
    assert results["counting"]["4"]["auc_0_1"] > 0.95
    confusion = np.array(results["counting"]["4"]["confusion"])
    assert confusion[0, 0] > 0.8 * confusion[0].sum()
    assert confusion[1:, 1].sum() > 0.9 * confusion[1:].sum()
    assert not confusion[:, 2:].any()


def test_the_bundle_says_so_and_refuses_decoders_of_counts(run, task):
    _, _, bundle = run
    assert load_bundle(bundle.path).config.readings == "binary"
    assert "clean or not" in (bundle.path / "README.md").read_text()
    engine = open_engine(bundle, "openvino", threads=1)
    files = [str(file) for file in sorted((task / "test").rglob("*.png"))]
    for name, options in (("dorfman", {}), ("oneshot", {"decoder": "comp", "pools_per_image": 2})):
        scheme = make_scheme(name, bundle.config.pool_sizes, prevalence=0.2, **options)
        verdicts = list(Moderator(bundle, engine, scheme).moderate(files))
        assert len(verdicts) == len(files)
        right = [
            verdict.flagged == ("/flagged/" in file) for file, verdict in zip(files, verdicts, strict=True)
        ]
        assert np.mean(right) > 0.8
    with pytest.raises(ValueError, match="mip decodes counts, but this bundle's networks only tell"):
        Moderator.load(bundle.path, scheme="oneshot", pools_per_image=2, prevalence=0.2)


@pytest.fixture(scope="module")
def both(task, tmp_path_factory):
    """The same with both kinds of readings."""
    root = tmp_path_factory.mktemp("both")
    torch.set_num_threads(1)
    results = train(
        *(task, root / "run", replace(SETTINGS, readings="both", count_smoothing=0.1)),
        **{"cache_dir": root / "cache", "reporter": Reporter(quiet=True), "backbone": small_backbone()},
    )
    return root, results, export_run(root / "run", root / "bundle", backbone=small_backbone())


def test_with_both_kinds_of_readings_the_binary_networks_are_those_of_a_binary_run(run, both):
    (alone, alone_results, _), (root, results, bundle) = run, both
    assert results["binary"] == alone_results
    assert np.array(results["counting"]["4"]["confusion"])[:, 2:].any()  # these count
    assert not list(root.rglob("*.part"))
    edition = bundle.edition("binary")
    assert (bundle.config.readings, edition.config.readings) == ("counts", "binary")
    own, other = (load_file(folder / "model.safetensors") for folder in (alone / "run", edition.path))
    assert own.keys() == other.keys()
    for name, values in own.items():
        assert np.array_equal(values, other[name]), name
    counting = load_file(bundle.path / "model.safetensors")
    for name, values in other.items():
        shared = name.startswith(("front.", "individual."))
        assert np.array_equal(values, counting[name]) or not shared, name
    assert bundle.read("front.onnx") == edition.read("front.onnx")
    assert bundle.read("pooled-4.onnx") != edition.read("pooled-4.onnx")


def test_a_run_with_both_kinds_goes_on_wherever_it_was_killed(task, both, tmp_path):
    root, _, bundle = both
    whole = root / "run"

    def go_on(run):
        settings = replace(SETTINGS, readings="both", count_smoothing=0.1)
        quiet, cache = Reporter(quiet=True), root / "cache"
        train(task, run, settings, cache_dir=cache, reporter=quiet, backbone=small_backbone())
        assert (
            export_run(run, run.with_name(f"{run.name}-bundle"), backbone=small_backbone()).hash
            == bundle.hash
        )

    copied = shutil.copytree(whole, tmp_path / "copied")  # killed while phases were copied
    (copied / "binary" / "settings.json").unlink()
    shutil.rmtree(copied / "binary" / "phases" / "individual")
    shutil.rmtree(copied / "binary" / "phases" / "counting-2-4")
    (copied / "binary" / "calibration.json").unlink()
    with pytest.raises(ValueError, match="is not finished"):
        export_run(copied, tmp_path / "none", backbone=small_backbone())
    go_on(copied)
    trained = shutil.copytree(whole, tmp_path / "trained")  # killed before binary networks were trained
    shutil.rmtree(trained / "binary" / "phases" / "counting-2-4")
    go_on(trained)


def test_a_bundle_with_both_appears_whole_or_not_at_all(both, tmp_path, monkeypatch):
    root, _, bundle = both
    first = bundle_writing.load_bundle

    def killed(folder):
        made = first(folder)
        if made.config.editions:
            raise KeyboardInterrupt
        return made

    monkeypatch.setattr(bundle_writing, "load_bundle", killed)
    with pytest.raises(KeyboardInterrupt):
        export_run(root / "run", tmp_path / "out", backbone=small_backbone())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "out").mkdir()
    again = export_run(root / "run", tmp_path / "out", backbone=small_backbone())
    assert again.hash == bundle.hash and verify_bundle(again.path) == []
    with pytest.raises(ValueError, match="exists already"):
        export_run(root / "run", tmp_path / "out", backbone=small_backbone())
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_front_that_learns_from_images_is_shared_and_one_that_learns_from_pools_is_not(task, tmp_path):
    fronts = {}
    for learns_from in ("images", "pools"):
        settings = replace(
            SETTINGS,
            readings="both",
            pool_sizes=(2,),
            front="whole",
            front_epochs=1,
            epochs=1,
            individual_epochs=1,
            pools_per_epoch=40,
            front_learns_from=learns_from,
        )
        out, quiet = tmp_path / learns_from, Reporter(quiet=True)
        train(task, out, settings, cache_dir=tmp_path / "c", reporter=quiet, backbone=small_backbone())
        counting, binary = (load_file(folder / "model.safetensors") for folder in (out, out / "binary"))
        fronts[learns_from] = [
            np.array_equal(counting[name], binary[name]) for name in counting if name.startswith("front.")
        ]
    assert all(fronts["images"])
    assert not all(fronts["pools"])


def test_an_evaluation_sets_binary_methods_beside_those_that_count(both, run, task, tmp_path):
    data = {"dataset": load_dataset(task), "engine": "openvino", "threads": 1}
    names = ("individual", "dorfman", "comp", "dorfman-binary", "comp-binary", "bp-binary", "adaptive-binary")
    plan = EvaluationPlan(
        prevalences=(0.1,), images=200, tuning_images=200, timing_images=0, known_pools=100, methods=names
    )
    found = evaluate(both[2], plan=plan, cache_dir=tmp_path / "both", **data)
    rows = {row.method: row for row in found.rows}
    assert set(names) <= set(rows)
    alone = replace(plan, methods=("dorfman", "comp", "bp", "adaptive"))
    for row in evaluate(run[2], plan=alone, cache_dir=tmp_path / "alone", **data).rows:
        if row.method != "individual":  # of the same networks
            beside = rows[f"{row.method}-binary"]
            assert (beside.detection, beside.cost) == (row.detection, row.cost), row.method
    # With a last layer that says the reverse, only they see less.
    folder = copy_bundle(both[2].path, tmp_path / "reversed")
    edition = load_bundle(folder).edition("binary")
    model = onnx.load_model_from_string(edition.read("pooled-4.onnx"))
    for tensor in model.graph.initializer:
        if tensor.name.startswith("final."):
            tensor.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(tensor), tensor.name))
    add_files(edition.path, edition.config, {"pooled-4.onnx": model.SerializeToString()})
    found = evaluate(load_bundle(folder), plan=plan, cache_dir=tmp_path / "reversed-cache", **data)
    for row in found.rows:
        same = row.detection == rows[row.method].detection
        assert same != row.method.endswith("-binary"), row.method
    with pytest.raises(
        ValueError, match="comp-binary reads binary networks, but bundle has no binary edition"
    ):
        evaluate(run[2], plan=replace(plan, methods=("comp-binary",)), cache_dir=tmp_path / "none", **data)


def test_an_evaluation_leaves_decoders_of_counts_out(run, task, tmp_path):
    _, _, bundle = run
    plan = EvaluationPlan(prevalences=(0.1,), images=200, tuning_images=200, timing_images=0, known_pools=100)
    found = evaluate(bundle, load_dataset(task), plan, engine="openvino", threads=1, cache_dir=tmp_path)
    rows = {row.method: row for row in found.rows}
    assert not any(COMPETITORS[name].reads_counts for name in rows)
    for name in ("dorfman", "dorfman-recompute", "comp", "bp", "individual-argmax", "downsample-comp"):
        assert name in rows
    assert rows["dorfman"].detection == rows["dorfman-recompute"].detection
    assert rows["dorfman"].cost < rows["dorfman-recompute"].cost
    assert rows["comp"].detection.sensitivity.value > 0.8
    with pytest.raises(ValueError, match="classo decodes counts"):
        asked = EvaluationPlan(prevalences=(0.1,), images=200, methods=("classo",))
        evaluate(bundle, load_dataset(task), asked, cache_dir=tmp_path)
