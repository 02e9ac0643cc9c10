"""A bundle's individual network teaches its glance; a new bundle with it is made, recorded and planned."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import SHORT_SETTINGS, draw_task, small_backbone
from typer.testing import CliRunner

from poolsieve.bundles import verify_bundle
from poolsieve.cli.bundles import app
from poolsieve.engines import open_engine
from poolsieve.export import distilled_glance, export_run
from poolsieve.export.distilled_glance import distil_glance
from poolsieve.images.datasets import load_dataset
from poolsieve.images.reading import read_image
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.statistics import auc
from poolsieve.training.glance_distillation import glance_of_bundle
from poolsieve.training.run import train
from poolsieve.training.settings import GlanceSettings

# The glance learns next to nothing at first, the individual network all.
SETTINGS = replace(SHORT_SETTINGS, glance=GlanceSettings(stop="second", epochs=1, batch_images=16))


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture(scope="module")
def weak(task, tmp_path_factory):
    torch.set_num_threads(1)
    run, out = tmp_path_factory.mktemp("runs") / "weak", tmp_path_factory.mktemp("bundles") / "weak"
    quiet = Reporter(quiet=True)
    train(task, run, SETTINGS, cache_dir=run / "cache", reporter=quiet, backbone=small_backbone())
    return export_run(run, out, backbone=small_backbone(), precision="fp16")


def distilled(bundle, task, out, **settings):
    settings = {"work": out.with_name(f"{out.name}.work"), "epochs": 4, "learning_rate": 0.02, **settings}
    return distil_glance(
        bundle.path, task, out, reporter=Reporter(quiet=True), backbone=small_backbone(), **settings
    )


@pytest.fixture(scope="module")
def strong(weak, task, tmp_path_factory):
    return distilled(weak, task, tmp_path_factory.mktemp("distilled") / "strong")


def pixels_of(task, split):
    dataset = load_dataset(task)
    rows = dataset.of_split(split)
    return np.stack([np.asarray(read_image(dataset.files[row])) for row in rows]), dataset.labels[rows]


def test_a_network_made_of_the_graph_says_what_the_engine_says(weak, task):
    pixels, _ = pixels_of(task, "test")
    network = glance_of_bundle(weak, small_backbone()).eval()
    with torch.inference_mode():
        logits = network(small_backbone().preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float()))
    assert logits.numpy() == pytest.approx(open_engine(weak, threads=1).glance(pixels), abs=1e-4)


def test_the_glance_gets_better_and_nothing_else_changes(weak, strong, task):
    pixels, labels = pixels_of(task, "test")
    before, after = (open_engine(bundle, threads=1) for bundle in (weak, strong))
    assert auc(after.glance(pixels), labels) > auc(before.glance(pixels), labels) + 0.02
    features = before.front(pixels).features
    assert np.array_equal(after.front(pixels).features, features)
    assert np.array_equal(after.individual(features).logits, before.individual(features).logits)


def test_the_new_bundle_is_whole_calibrated_recorded_and_moderates(weak, strong, task):
    assert verify_bundle(strong.path) == []
    assert strong.has_recordings
    assert not strong.has_weights  # they would be those of the glance before
    assert strong.calibration.glance != weak.calibration.glance
    assert strong.calibration.individual == weak.calibration.individual
    assert "the individual network as its teacher" in (strong.path / "README.md").read_text()
    statuses = [verdict.status for verdict in Moderator.load(strong.path).moderate(task / "test" / "flagged")]
    assert statuses.count("flagged") >= 20
    assert not list(strong.path.parent.glob(".*"))


def test_a_glance_that_is_misled_is_not_kept(strong, task, tmp_path, monkeypatch):
    inverted = open_engine(strong, threads=1)
    taught = inverted.individual
    monkeypatch.setattr(
        inverted, "individual", lambda features: replace(output := taught(features), logits=-output.logits)
    )
    monkeypatch.setattr(distilled_glance, "open_engine", lambda bundle: inverted)
    with pytest.raises(ValueError, match="no epoch was better"):
        distilled(strong, task, tmp_path / "misled")
    assert not (tmp_path / "misled").exists()


def test_a_finished_training_goes_on_to_the_same_bundle(weak, strong, task, tmp_path):
    work = strong.path.with_name("strong.work")
    again = distilled(weak, task, tmp_path / "again", work=work)
    assert (again.path / "glance.onnx").read_bytes() == (strong.path / "glance.onnx").read_bytes()
    with pytest.raises(ValueError, match="other settings"):
        distilled(weak, task, tmp_path / "other", work=work, epochs=9)


def test_what_cannot_be_is_refused(weak, strong, task, tmp_path):
    with pytest.raises(ValueError, match="exists already"):
        distilled(weak, task, strong.path)
    result = CliRunner().invoke(app, ["distil", str(weak.path), str(task), "--out", str(strong.path)])
    assert result.exit_code != 0
    assert "exists already" in str(result.exception)
