"""A run with a glance trains, calibrates, measures and exports it, and moderates by it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from typer.testing import CliRunner

from poolsieve.calibration import Calibration
from poolsieve.cli.bundles import app
from poolsieve.engines import open_engine
from poolsieve.export import export_run
from poolsieve.export.recording import record_bundle
from poolsieve.moderation import Moderator
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.training import Optimization, TrainingSettings
from poolsieve.training.run import train
from poolsieve.training.settings import GlanceSettings

QUICK = Optimization(learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0)
SETTINGS = TrainingSettings(
    pool_sizes=(4,),
    views=1,
    individual_epochs=4,
    epochs=1,
    pools_per_epoch=64,
    batch_images=16,
    batch_pools=16,
    validation_pools=50,
    test_pools=50,
    optimization=QUICK,
    glance=GlanceSettings(stop="third", epochs=5, batch_images=16),
)


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "glance"
    torch.set_num_threads(1)
    results = train(
        task, out, SETTINGS, cache_dir=out / "cache", reporter=Reporter(quiet=True), backbone=small_backbone()
    )
    return out, results


@pytest.fixture(scope="module")
def bundle(run, task, tmp_path_factory):
    out = tmp_path_factory.mktemp("bundles") / "glance"
    export_run(run[0], out, backbone=small_backbone())
    return record_bundle(out, task, reporter=Reporter(quiet=True))


def test_the_glance_is_learnt_and_reported(run):
    out, results = run
    assert results["glance"]["auc"] > 0.95
    assert 0 < results["cost"]["glance_share"] < 0.5
    assert Calibration.load(out / "calibration.json").glance_roc.auc > 0.95
    assert "glance" in (out / "history.csv").read_text()


def test_the_glance_is_kept(run):
    model = load_model(run[0], small_backbone())
    assert (model.glance.shrink, model.glance.stop) == (2, "third")
    assert not model.glance.training


def test_a_run_that_is_done_goes_on_to_the_same_result(run, task):
    out, results = run
    again = train(
        task, out, SETTINGS, cache_dir=out / "cache", reporter=Reporter(quiet=True), backbone=small_backbone()
    )
    assert again == results


def test_another_glance_is_another_run(run, task):
    changed = replace(SETTINGS, glance=replace(SETTINGS.glance, epochs=9))
    with pytest.raises(ValueError, match=r"glance\.epochs: 5 -> 9"):
        train(task, run[0], changed, cache_dir=run[0] / "cache", backbone=small_backbone())


def test_engines_give_what_the_network_gives(run, bundle):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    model = load_model(run[0], small_backbone())
    with torch.no_grad():
        images = model.backbone.preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
        expected = model.glance(images).numpy()
    for name in ("openvino", "onnxruntime"):
        np.testing.assert_allclose(open_engine(bundle, name).glance(pixels), expected, atol=1e-3)


def test_the_bundle_plans_and_moderates_by_a_glance(bundle, task):
    assert bundle.recordings().glances is not None
    assert bundle.config.cost.glance > 0
    files = sorted((task / "test").rglob("*.png"))
    moderator = Moderator.load(bundle.path, scheme="glance", prevalence=0.5, clear_below=0.4, seed=1)
    verdicts = list(moderator.moderate(files))
    assert {verdict.decided_by for verdict in verdicts} == {"glance", "individual"}
    right = [
        verdict.flagged == ("flagged" in str(file)) for verdict, file in zip(verdicts, files, strict=True)
    ]
    assert np.mean(right) > 0.9


def test_people_see_the_glance(bundle):
    shown = CliRunner().invoke(app, ["show", str(bundle.path)])
    assert "glance" in shown.output
    card = (bundle.path / "README.md").read_text()
    assert "A glance at 16 px" in card
    assert "glance, AUC" in card
    assert json.loads((bundle.path / "config.json").read_text())["glance"] == {"shrink": 2, "stop": "third"}
