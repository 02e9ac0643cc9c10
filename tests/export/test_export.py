"""From a training run to a bundle."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from made_bundles import networks_on, random_calibration, tiny_backbone

import poolsieve
from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.bundles.training_shapes import TrainingShapes
from poolsieve.engines import compare_engines, open_engine
from poolsieve.export import export_run, save_bundle
from poolsieve.networks import multiply_adds

RESULTS = {
    "images": {"flagged": 200, "ordinary": 400},
    "individual": {"auc": 0.99, "sensitivity": 0.95, "specificity": 1.0},
    "head": {"auc": 0.9},
    "counting": {
        "4": {
            "pools": 1000,
            "exact": 0.7,
            "within_one": 0.95,
            "per_count": [
                {"count": 0, "pools": 500, "exact": 0.9},
                {"count": 1, "pools": 300, "exact": 0.6},
            ],
            "auc_0_1": 0.9,
        }
    },
}


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of a training run, to be changed."""
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def test_the_configuration_says_what_was_trained(tiny_bundle):
    config, backbone = tiny_bundle.config, tiny_backbone()
    assert (config.task, config.kind, config.resize_mode) == ("discs", "classification", "pad")
    assert (config.backbone, config.cut, config.merge) == ("tiny", "first", "gated")
    assert (config.input_size, config.feature_shape, config.feature_width) == (32, (6, 8, 8), 8)
    cost = multiply_adds(backbone)
    assert (config.cost.front, config.cost.back) == (cost.front, cost.back)
    assert config.cost.final == 2 * 8  # the individual network has two outputs
    assert config.cost.whole == cost.front + cost.back + 16
    assert config.cost.gate > 0
    assert config.versions["poolsieve"] == poolsieve.__version__


def test_the_same_run_gives_the_same_bundle(tiny_run, tiny_bundle, tmp_path):
    again = export_run(tiny_run, tmp_path / "again", backbone=tiny_backbone())
    assert again.hash == tiny_bundle.hash


def test_graphs_do_not_tell_of_the_machine_they_were_made_on(tiny_bundle):
    source = str(Path(poolsieve.__file__).parents[1]).encode()
    for file in tiny_bundle.config.files:
        content = tiny_bundle.read(file)
        assert source not in content
        assert b"site-packages" not in content


def test_half_precision_halves_the_files_of_a_network(tmp_path):
    stages = tiny_backbone()
    wide = torch.nn.Sequential(torch.nn.Conv2d(8, 512, 3, padding=1), torch.nn.ReLU())
    backbone = type(stages)(
        "wide",
        {"first": stages.stages["first"], "second": stages.stages["second"], "third": wide},
        torch.nn.Linear(512, 5),
        cut="first",
        input_size=32,
        preprocessing=stages.preprocessing,
    ).eval()
    model, calibration = networks_on(backbone, "max", (8,)), random_calibration((8,))
    sizes = {}
    for precision in ("fp32", "fp16"):
        bundle = save_bundle(
            tmp_path / precision, model, calibration, task="discs", resize_mode="pad", precision=precision
        )
        assert bundle.config.precision == precision
        sizes[precision] = {name: record.bytes for name, record in bundle.config.files.items()}
    for name in ("individual.onnx", "pooled-8.onnx", "model.safetensors"):
        assert 0.45 < sizes["fp16"][name] / sizes["fp32"][name] < 0.6
    weights = model.individual.back[1][0].weight
    assert not torch.equal(weights, weights.half().float())  # the caller's networks are not rounded


def test_weights_beyond_half_precision_are_refused_and_nothing_is_left(tmp_path):
    model = networks_on(tiny_backbone(), "gated", (2,))
    with torch.no_grad():
        model.individual.final.weight[0, 0] = 1e6
    arguments = {"task": "discs", "resize_mode": "pad"}
    with pytest.raises(ValueError, match="range of half precision"):
        save_bundle(tmp_path / "out", model, random_calibration((2,)), precision="fp16", **arguments)
    model.individual.final.weight.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        save_bundle(tmp_path / "out", model, random_calibration((2,)), **arguments)
    with pytest.raises(ValueError, match=r"calibrated for pools of \[3\]"):
        save_bundle(
            tmp_path / "out", networks_on(tiny_backbone(), "max", (2,)), random_calibration((3,)), **arguments
        )
    assert list(tmp_path.iterdir()) == []


def test_weights_may_stay_out_and_notes_go_in(tiny_run, tmp_path):
    bundle = export_run(
        tiny_run,
        tmp_path / "light",
        backbone=tiny_backbone(),
        weights=False,
        notes="## Sources\n\nDrawn discs.",
    )
    assert not bundle.has_weights
    assert not (bundle.path / "model.safetensors").exists()
    assert (bundle.path / "README.md").read_text().endswith("## Sources\n\nDrawn discs.\n")
    assert verify_bundle(bundle.path) == []
    assert open_engine(bundle, "auto").bundle is bundle
    with pytest.raises(ValueError, match=r"comes without model\.safetensors, which torch needs"):
        open_engine(bundle, "torch")
    assert "torch" not in compare_engines(bundle).differences


def test_a_folder_in_use_is_left_alone(tiny_run, tiny_bundle, tmp_path):
    with pytest.raises(ValueError, match="not an empty folder"):
        export_run(tiny_run, tiny_bundle.path, backbone=tiny_backbone())
    (tmp_path / "out").mkdir()
    assert export_run(tiny_run, tmp_path / "out", backbone=tiny_backbone()).hash == tiny_bundle.hash


def test_a_run_that_is_not_finished_or_none_is_refused(run, tmp_path):
    (run / "calibration.json").unlink()
    with pytest.raises(ValueError, match="finish the run"):
        export_run(run, tmp_path / "out", backbone=tiny_backbone())
    (run / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="not of a training run"):
        export_run(run, tmp_path / "out")
    (run / "settings.json").write_text("{}")
    (run / "config.json").unlink()
    with pytest.raises(ValueError, match="is not finished; the same `poolsieve train` command goes on"):
        export_run(run, tmp_path / "out")
    with pytest.raises(ValueError, match="no training run"):
        export_run(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_own_shares_of_pools_are_the_training_prior_of_the_largest_size(run, tmp_path):
    config = json.loads((run / "config.json").read_text())
    config["settings"]["shares"] = [0.2, 0.2, 0.2, 0.2, 0.2]
    (run / "config.json").write_text(json.dumps(config))
    prior = export_run(run, tmp_path / "out", backbone=tiny_backbone()).config.training_prior
    assert prior[4] == (0.2,) * 5
    assert prior[2] == pytest.approx((40 / 76, 24 / 76, 12 / 76))


@pytest.mark.parametrize(
    ("resize_mode", "squares", "line"),
    [
        ("stretch", 100, "- Trained on squares; photographs are stretched to squares."),
        ("pad", 100, "- Shapes: all training images are squares, so the networks know no bars"),
        ("pad", 5, "- Shapes: 5 of 100 training images are squares; width by height is mostly 0.75 to 1.50"),
    ],
)
def test_card_and_configuration_tell_of_shapes_and_a_misfit_is_logged(
    run, tmp_path, caplog, resize_mode, squares, line
):
    config = json.loads((run / "config.json").read_text())
    shapes = {"images": 100, "squares": squares, "aspects": [0.75, 1.2, 1.5]}
    (run / "config.json").write_text(
        json.dumps({**config, "resize_mode": resize_mode, "training_shapes": shapes})
    )
    bundle = export_run(run, tmp_path / "out", backbone=tiny_backbone())
    assert bundle.config.training_shapes == TrainingShapes(100, squares, (0.75, 1.2, 1.5))
    assert line in (bundle.path / "README.md").read_text()
    misfits = [record for record in caplog.records if "know no bars" in record.message]
    assert len(misfits) == (resize_mode == "pad" and squares == 100)


def test_the_card_gives_results_with_intervals(run, tmp_path):
    (run / "results.json").write_text(json.dumps(RESULTS))
    export_run(run, tmp_path / "out", backbone=tiny_backbone())
    card = (load_bundle(tmp_path / "out").path / "README.md").read_text()
    assert "200 images to flag and 400 others" in card
    # Wilson's intervals of 190 of 200, 400 of 400 and 700 of 1000.
    assert "| individual network, sensitivity | 0.9500 | 0.9104 to 0.9726 |" in card
    assert "| individual network, specificity | 1.0000 | 0.9905 to 1.0000 |" in card
    assert "| pools of 4, count exact | 0.7000 | 0.6709 to 0.7276 |" in card
    found = re.search(r"one bad image against none, AUC \| 0.9000 \| (0.\d+) to (0.\d+) \|", card)
    low, high = map(float, found.groups())
    assert high - low == pytest.approx(2 * 1.96 * 0.0126, abs=5e-4)  # Hanley and McNeil, 300 and 500 pools
    for heading in ("## Data", "## Results", "## Intended use", "## Limits"):
        assert heading in card
