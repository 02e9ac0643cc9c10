"""Two bundles as one: looks and pools at half size, tests of what they leave at whole size."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from altered_bundles import change_config, copy_bundle
from drawn_shapes import SHORT_SETTINGS, draw_task, small_backbone
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.cli.bundles import app
from poolsieve.engines import compare_engines, open_engine
from poolsieve.export import export_run
from poolsieve.export.bundle_writing import add_edition
from poolsieve.export.joining import join_bundles
from poolsieve.export.quantising import quantise_bundle
from poolsieve.images.datasets import load_dataset
from poolsieve.images.reading import read_image
from poolsieve.moderation import Moderator
from poolsieve.planning import plan
from poolsieve.progress import Reporter
from poolsieve.training.run import train

QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture(scope="module")
def parts(task, tmp_path_factory):
    """A bundle at whole size, and one at half size."""
    torch.set_num_threads(1)
    runs, bundles = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("bundles")
    made = []
    for name, shrink in (("whole", 1), ("half", 2)):
        settings = replace(SHORT_SETTINGS, shrink=shrink)
        train(task, runs / name, settings, cache_dir=runs / "c", reporter=QUIET, backbone=small_backbone())
        backbone = small_backbone().shrunk(shrink)
        made.append(export_run(runs / name, bundles / name, backbone=backbone, precision="fp16"))
    return made


@pytest.fixture(scope="module")
def joined(parts, task, tmp_path_factory):
    whole, half = parts
    out = tmp_path_factory.mktemp("joined") / "both"
    return join_bundles(whole.path, half.path, task, out, reporter=QUIET)


@pytest.fixture(scope="module")
def pixels(task):
    dataset = load_dataset(task)
    rows = dataset.of_split("test")
    return np.stack([np.asarray(read_image(dataset.files[row])) for row in rows])


def test_a_front_at_half_size_costs_a_quarter_and_shrinks_by_itself(parts, pixels):
    whole, half = (bundle.config for bundle in parts)
    assert half.shrink == 2 and half.input_size == whole.input_size
    assert half.feature_shape[1] == whole.feature_shape[1] // 2
    assert half.cost.front == pytest.approx(whole.cost.front / 4, rel=0.01)
    backbone = small_backbone().eval()
    drawn = np.random.default_rng(0).random((2, 3, whole.input_size, whole.input_size), dtype=np.float32)
    images = torch.from_numpy(drawn)
    with torch.inference_mode():
        expected = backbone.front(torch.nn.functional.avg_pool2d(images, 2))
        assert torch.allclose(backbone.shrunk(2).front(images), expected, atol=1e-5)


def test_each_network_says_what_it_said_in_its_own_bundle(parts, joined, pixels):
    whole, half = (open_engine(bundle, threads=1) for bundle in parts)
    both = open_engine(joined, threads=1)
    features = half.front(pixels).features
    assert np.array_equal(both.front(pixels).features, features)
    tested = whole.individual(whole.front(pixels).features)
    assert both.individual(pixels).logits == pytest.approx(tested.logits, abs=1e-4)
    small = half.individual(features).logits
    assert both.glance(features) == pytest.approx(small[:, 1] - small[:, 0], abs=1e-4)
    gate, pools = half.head(features).gate, np.arange(8).reshape(2, 4)
    assert np.array_equal(
        both.pooled(features, gate, pools, 4).logits, half.pooled(features, gate, pools, 4).logits
    )


def test_costs_are_shares_of_a_test_at_whole_size(parts, joined):
    whole, half = (bundle.config.cost for bundle in parts)
    cost = joined.config.cost
    assert cost.whole == whole.whole
    assert (cost.front, cost.gate, cost.glance) == (half.front, half.gate, half.back + half.final)


def test_the_joined_bundle_is_whole_and_engines_agree_on_it(joined):
    assert not verify_bundle(joined.path)
    assert not compare_engines(joined).problems()


@pytest.mark.parametrize("scheme", ["individual", "cascade", "glance", "dorfman", "adaptive"])
def test_moderating_charges_the_small_front_and_whole_tests(joined, task, scheme):
    images = task / "test"
    judge = Moderator.load(joined.path, scheme=scheme, threads=1, seed=0)
    verdicts = list(judge.moderate(images))
    assert {verdict.status for verdict in verdicts} <= {"clear", "flagged"}
    meter, cost = judge.totals.meter, joined.config.cost
    paid = (
        meter.runs["front"] * cost.front
        + meter.runs["head"] * cost.gate
        + meter.runs["glance"] * cost.glance
        + meter.runs["pools"] * (cost.back + cost.final)
        + meter.runs["retests"] * cost.individual
    )
    assert meter.share == pytest.approx(paid / len(verdicts) / cost.whole)
    assert meter.runs["front"] == (0 if scheme == "individual" else len(verdicts))
    if scheme == "individual":
        assert meter.share == 1


def test_individual_verdicts_are_those_of_the_bundle_that_tests(parts, joined, task):
    images = task / "test"
    found = [
        [
            (verdict.status, pytest.approx(verdict.score, abs=1e-4))
            for verdict in Moderator.load(bundle.path, scheme="individual", threads=1, seed=0).moderate(
                images
            )
        ]
        for bundle in (parts[0], joined)
    ]
    assert found[0] == found[1]


def test_editions_of_its_parts_are_left_out(parts, joined, task, tmp_path):
    small = copy_bundle(parts[1].path, tmp_path / "small")
    draft = copy_bundle(small, tmp_path / "draft")
    change_config(draft, readings="binary")
    add_edition(small, "binary", draft)
    made = join_bundles(parts[0].path, small, task, tmp_path / "both", reporter=QUIET)
    assert made.hash == joined.hash
    assert {file.name for file in made.path.iterdir()} == {file.name for file in joined.path.iterdir()}


def test_plans_are_made_for_it(joined):
    choices = plan(load_bundle(joined.path), prevalence=0.05, within=0.5)
    assert 0 < choices.best.cost.value <= 1


def test_it_can_be_quantised(joined, task, pixels, tmp_path):
    int8 = quantise_bundle(joined.path, task, tmp_path / "int8", images=40, reporter=QUIET)
    assert not verify_bundle(int8.path)
    before, after = (open_engine(bundle, threads=1) for bundle in (joined, int8))
    for network in ("individual", "glance"):
        seen = [
            getattr(engine, network)(pixels if network == "individual" else engine.front(pixels).features)
            for engine in (before, after)
        ]
        logits = [output[:, None] if network == "glance" else output.logits for output in seen]
        assert np.corrcoef(logits[0][:, -1], logits[1][:, -1])[0, 1] > 0.98, network


def test_what_does_not_fit_is_refused(parts, joined, task, tmp_path):
    whole, half = parts
    with pytest.raises(ValueError, match="made of two bundles already"):
        join_bundles(joined.path, half.path, task, tmp_path / "new", reporter=QUIET)
    with pytest.raises(ValueError, match="exists already"):
        join_bundles(whole.path, half.path, task, joined.path, reporter=QUIET)
    with pytest.raises(ValueError, match=r"task is shapes .* but firearms"):
        join_bundles(whole.path, "firearms", task, tmp_path / "new", reporter=QUIET)
    assert not (tmp_path / "new").exists()


def test_a_glance_beside_a_small_front_is_refused():
    with pytest.raises(ValueError, match="leave the glance out"):
        replace(SHORT_SETTINGS, shrink=2, glance={"epochs": 1})


def test_the_command_says_what_was_made(parts, task, tmp_path):
    whole, half = (str(bundle.path) for bundle in parts)
    done = CliRunner().invoke(app, ["join", whole, half, str(task), "--out", str(tmp_path / "both")])
    assert done.exit_code == 0, done.output
    assert "at 16 px" in done.output


def test_a_missing_package_is_named_with_what_to_install(parts, task, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    whole, half = parts
    with pytest.raises(ImportError, match=r"joining bundles needs onnx: pip install 'poolsieve\[train\]'"):
        join_bundles(whole.path, half.path, task, tmp_path / "new", reporter=QUIET)
    assert not (tmp_path / "new").exists()
