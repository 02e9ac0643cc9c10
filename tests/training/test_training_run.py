import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import draw_task, small_backbone
from PIL import Image
from rich.console import Console

from poolsieve.calibration import Calibration
from poolsieve.export import export_run
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.training import Optimization, TrainingSettings, make_settings
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import read_images, read_pools
from poolsieve.training.run import train
from poolsieve.training.run_results import sensitivity_at, table_lines
from poolsieve.training.sampling import draw_pools
from poolsieve.training.settings import GlanceSettings

QUICK = Optimization(learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0)
SETTINGS = TrainingSettings(
    pool_sizes=(4, 2),
    counting="separate",
    views=2,
    individual_epochs=4,
    epochs=5,
    pools_per_epoch=320,
    batch_images=16,
    batch_pools=16,
    validation_pools=100,
    test_pools=200,
    optimization=QUICK,
)


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(scope="module")
def run(task, tmp_path_factory, caches):
    """One training run on the drawn task: its folder and its results."""
    from poolsieve.progress import Reporter

    out = tmp_path_factory.mktemp("runs") / "gated"
    torch.set_num_threads(1)
    results = train(
        task, out, SETTINGS, cache_dir=caches, reporter=Reporter(quiet=True), backbone=small_backbone()
    )
    return out, results


def history_of(out):
    with (out / "history.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_the_toy_task_is_learnt(run):
    _, results = run
    assert results["individual"]["auc"] > 0.99
    assert results["head"]["auc"] > 0.98
    for size in ("2", "4"):
        figures = results["counting"][size]
        assert figures["exact"] > 0.85
        assert figures["auc_0_1"] > 0.97
        assert figures["ideal_auc_0_1"] > 0.97


def test_training_lowers_the_loss_and_history_tells(run):
    out, _ = run
    rows = history_of(out)
    assert [row["phase"] for row in rows] == ["individual"] * 4 + ["counting-4"] * 5 + ["counting-2"] * 5
    for phase in ("individual", "counting-4", "counting-2"):
        losses = [float(row["loss"]) for row in rows if row["phase"] == phase]
        assert losses[-1] < 0.6 * losses[0]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_results_are_consistent(run):
    out, results = run
    assert json.loads((out / "results.json").read_text()) == results
    figures = results["counting"]["4"]
    confusion = np.array(figures["confusion"])
    assert confusion.sum() == figures["pools"] == 200
    assert np.trace(confusion) / 200 == pytest.approx(figures["exact"])
    for row in figures["per_count"]:
        numbers = confusion[row["count"]]
        assert numbers.sum() == row["pools"]
        assert numbers[row["count"]] / row["pools"] == pytest.approx(row["exact"])
    assert results["images"] == {"flagged": 24, "ordinary": 24}
    assert 0 < results["cost"]["front_share"] < 1


def test_calibration_and_pictures_are_saved(run):
    out, _ = run
    calibration = Calibration.load(out / "calibration.json")
    assert set(calibration.counting) == {2, 4}
    assert np.sum(calibration.counting[4].confusion) == SETTINGS.validation_pools
    for picture in ("roc.png", "confusion-2.png", "confusion-4.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")


def test_the_saved_model_reads_like_the_trained_one(run, task, caches):
    out, results = run
    model = load_model(out, small_backbone())
    config = json.loads((out / "config.json").read_text())
    assert (config["task"], config["backbone"], config["cut"]) == (task.name, "small", "second")
    assert config["pool_sizes"] == [2, 4]
    assert config["merge"] == "gated"
    assert model.counting[2].gate is model.gate is model.counting[4].gate
    from poolsieve.images import load_dataset
    from poolsieve.progress import Reporter
    from poolsieve.training.run_results import measure
    from poolsieve.training.split_features import SplitFeatures

    splits = SplitFeatures(model.backbone, load_dataset(task), SETTINGS, caches, Reporter(quiet=True))
    inputs = splits.cached("test")
    assert {**measure(model, inputs, SETTINGS), "unreadable_images": 0} == results


def stretched(task, folder, size):
    """The drawn task with images of another size."""
    for file in task.rglob("*.png"):
        target = folder / file.relative_to(task)
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.open(file).resize(size).save(target)
    return folder


QUICKEST = replace(
    SETTINGS,
    pool_sizes=(2,),
    views=1,
    individual_epochs=1,
    epochs=1,
    pools_per_epoch=16,
    validation_pools=10,
    test_pools=10,
)


@pytest.mark.parametrize(
    ("size", "asked", "chosen", "said"),
    [
        (
            (32, 32),
            None,
            "stretch",
            "all training images are squares: photographs will be stretched to squares",
        ),
        (
            (40, 30),
            None,
            "pad",
            "0 of 96 training images are squares; width by height is mostly 1.33 to 1.33",
        ),
        ((32, 32), "pad", "pad", "warning: all training images are squares, so the networks know no bars"),
        ((40, 30), "stretch", "stretch", None),
    ],
)
def test_images_become_square_as_suits_those_that_are_learnt_from(task, tmp_path, size, asked, chosen, said):
    data = task if size == (32, 32) else stretched(task, tmp_path / "data", size)
    stream = io.StringIO()
    reporter = Reporter(Console(file=stream, width=300))
    settings = replace(QUICKEST, resize_mode=asked)
    out = tmp_path / "run"
    train(data, out, settings, cache_dir=tmp_path / "cache", reporter=reporter, backbone=small_backbone())
    if said is None:
        assert "squares" not in stream.getvalue()
    else:
        assert said in stream.getvalue()
    squares = 96 if size == (32, 32) else 0
    config = json.loads((out / "config.json").read_text())
    assert (config["resize_mode"], config["settings"]["resize_mode"]) == (chosen, chosen)
    assert config["training_shapes"]["images"] == 96
    assert config["training_shapes"]["squares"] == squares
    exported = export_run(out, tmp_path / "bundle", backbone=small_backbone()).config
    assert (exported.resize_mode, exported.training_shapes.squares) == (chosen, squares)


@pytest.mark.parametrize(
    "changes",
    [
        {"glance": GlanceSettings(epochs=1)},
        {"front": "tuned", "tune_from": "first", "front_epochs": 1},
        {"fresh_views": 1, "epochs": 2, "pool_sizes": (4, 2)},
    ],
)
def test_the_time_left_in_all_counts_every_part_once(task, tmp_path, changes):
    """All parts that were expected came, so nothing is left at the end."""
    stream = io.StringIO()
    reporter = Reporter(Console(file=stream, width=300))
    settings = replace(QUICKEST, **changes)
    train(
        task,
        tmp_path / "run",
        settings,
        cache_dir=tmp_path / "c",
        reporter=reporter,
        backbone=small_backbone(),
    )
    epochs = [line for line in stream.getvalue().splitlines() if ": epoch " in line]
    assert all(" left, about " in line and line.endswith(" left in all") for line in epochs), epochs
    assert reporter.clock.left() == 0
    again = Reporter(quiet=True)
    train(
        task, tmp_path / "run", settings, cache_dir=tmp_path / "c", reporter=again, backbone=small_backbone()
    )
    assert again.clock.left() is None  # nothing was left to do, and so nothing was timed


def test_fast_readings_equal_the_networks_own(run):
    """Pools read place by place agree with `PooledNetwork` on a table of pools."""
    out, _ = run
    model = load_model(out, small_backbone())
    rng = np.random.default_rng(0)
    inputs = CachedInputs(rng.random((20, 1, 8, 8, 16)).astype(np.float16), np.array([0, 1] * 10))
    pools = draw_pools(inputs.labels, [10, 10, 10, 10, 5], rng)
    features = inputs.plain(np.arange(20))
    with torch.no_grad():
        expected = model.counting[4](features, pools.members)
        single = model.individual(features)
    assert np.allclose(read_pools(model.counting[4], inputs, pools).logits, expected.logits, atol=1e-5)
    readings = read_images(model.individual, model.gate, inputs)
    assert np.allclose(readings.head, expected.image_logits, atol=1e-5)
    assert np.allclose(readings.logits, single, atol=1e-5)


def test_running_again_changes_nothing(run, task, caches, quiet):
    out, results = run
    before = (out / "model.safetensors").read_bytes()
    again = train(task, out, SETTINGS, cache_dir=caches, reporter=quiet, backbone=small_backbone())
    assert again == results
    assert (out / "model.safetensors").read_bytes() == before


def test_other_settings_in_the_same_folder_are_named(run, task, caches, quiet):
    out, _ = run
    other = replace(SETTINGS, epochs=9, optimization=replace(QUICK, dropout=0.3))
    with pytest.raises(ValueError, match=r"epochs: 5 -> 9; optimization\.dropout: 0\.0 -> 0\.3") as caught:
        train(task, out, other, cache_dir=caches, reporter=quiet, backbone=small_backbone())
    assert "another --out" in str(caught.value)


def test_other_data_in_the_same_folder_are_refused(run, caches, quiet, tmp_path):
    out, _ = run
    other = draw_task(tmp_path / "others", seed=8)
    with pytest.raises(ValueError, match="data of split train: changed"):
        train(other, out, SETTINGS, cache_dir=caches, reporter=quiet, backbone=small_backbone())


def test_a_folder_with_other_things_is_left_alone(task, caches, quiet, tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"precious")
    with pytest.raises(ValueError, match="is not empty and holds no training run"):
        train(task, tmp_path, SETTINGS, cache_dir=caches, reporter=quiet, backbone=small_backbone())


def test_too_few_bad_images_for_a_pool(caches, quiet, tmp_path):
    small = draw_task(tmp_path / "small", numbers={"train": 9, "val": 5, "test": 9})
    settings = replace(SETTINGS, pool_sizes=(8,))
    with pytest.raises(ValueError, match="split 'val' has 5 bad images, but pools of 8"):
        train(small, tmp_path / "out", settings, cache_dir=caches, reporter=quiet, backbone=small_backbone())
    assert not (tmp_path / "out").exists()


def test_unreadable_images_are_skipped_or_refused(caches, quiet, tmp_path):
    damaged = draw_task(tmp_path / "damaged", numbers={"train": 8, "val": 8, "test": 8})
    (damaged / "train" / "clear" / "0.png").write_bytes(b"\x89PNG broken")
    settings = replace(
        SETTINGS, pool_sizes=(2,), individual_epochs=1, epochs=1, pools_per_epoch=32, test_pools=20
    )
    with pytest.raises(ValueError, match=r"0\.png"):
        train(damaged, tmp_path / "a", settings, cache_dir=caches, strict=True, reporter=quiet)
    results = train(
        damaged, tmp_path / "b", settings, cache_dir=caches, reporter=quiet, backbone=small_backbone()
    )
    assert results["images"] == {"flagged": 8, "ordinary": 8}


def test_plain_maximum_counts_too(task, caches, quiet, tmp_path):
    settings = replace(SETTINGS, merge="max", pool_sizes=(2,))
    results = train(
        task, tmp_path / "max", settings, cache_dir=caches, reporter=quiet, backbone=small_backbone()
    )
    assert results["counting"]["2"]["exact"] > 0.85
    assert results["head"]["auc"] > 0.98
    assert load_model(tmp_path / "max", small_backbone()).counting[2].gate is None


def front_weights(backbone):
    return {name: value.clone() for name, value in backbone.front.state_dict().items()}


@pytest.mark.parametrize(
    ("front", "learns_from"), [("tuned", "images"), ("tuned", "pools"), ("whole", "pools")]
)
def test_a_front_that_learns_is_shared_and_saved(task, caches, quiet, tmp_path, front, learns_from):
    settings = replace(
        SETTINGS,
        front=front,
        front_learns_from=learns_from,
        tune_from="first" if front == "tuned" else None,
        front_epochs=3,
        individual_epochs=2 if front == "tuned" else 0,
        epochs=2 if front == "tuned" else 0,
        pools_per_epoch=160,
    )
    before = front_weights(small_backbone())
    out = tmp_path / front
    results = train(task, out, settings, cache_dir=caches, reporter=quiet, backbone=small_backbone())
    after = front_weights(load_model(out, small_backbone()).backbone)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(name.startswith("1.") for name in changed)
    assert any(name.startswith("0.") for name in changed) == (front == "whole")
    assert results["individual"]["auc"] > 0.95
    assert results["counting"]["2"]["auc_0_1"] > 0.9
    losses = [float(row["loss"]) for row in history_of(out) if row["phase"] == "front"]
    assert losses[-1] < 0.8 * losses[0]


def test_a_front_may_learn_from_freshly_drawn_images(task, caches, quiet, tmp_path):
    settings = replace(
        SETTINGS, front="whole", front_epochs=3, individual_epochs=0, epochs=2, pool_sizes=(2,), gate_width=24
    )
    results = train(
        task, tmp_path / "out", settings, cache_dir=caches, reporter=quiet, backbone=small_backbone()
    )
    assert results["individual"]["auc"] > 0.95
    assert results["counting"]["2"]["auc_0_1"] > 0.9
    assert load_model(tmp_path / "out", small_backbone()).gate.width == 24


def test_the_papers_recipe_runs(task, caches, quiet, tmp_path):
    settings = make_settings("paper", pool_sizes=(2,), front_epochs=1, pools_per_epoch=32, test_pools=20)
    assert (settings.optimization.optimizer, settings.optimization.learning_rate) == ("sgd", 1e-3)
    assert (settings.optimization.momentum, settings.optimization.weight_decay) == (0.9, 1e-4)
    assert make_settings("paper").front_epochs == 90
    results = train(
        task, tmp_path / "paper", settings, cache_dir=caches, reporter=quiet, backbone=small_backbone()
    )
    assert results["counting"]["2"]["pools"] == 20


@pytest.mark.parametrize(("auc", "warned"), [(0.62, True), (0.93, False)])
def test_pools_that_are_of_little_use_are_named(auc, warned):
    counting = {"pools": 10, "exact": 0.5, "within_one": 0.6, "ideal_exact": 0.7, "per_count": []}
    counting |= {"auc_0_1": auc, "ideal_auc_0_1": 0.95, "pools_0_1": 6}
    results = {
        "images": {"flagged": 3, "ordinary": 4},
        "individual": {"auc": 0.9, "sensitivity": 0.8, "specificity": 0.7, "sensitivity_at_985": 0.6},
        "head": {"auc": 0.8},
        "cost": {"front_share": 0.3, "gate_share": 0.01},
        "counting": {8: counting},
    }
    warnings = [line for line in table_lines(results) if "pools of 8 with one bad image are hardly" in line]
    assert bool(warnings) == warned
    assert not any("--scheme glance" in line for line in warnings), "there is none to moderate with"
    results["glance"], results["cost"]["glance_share"] = {"auc": 0.9}, 0.2
    assert any("--scheme glance, cascade or individual" in line for line in table_lines(results)) == warned


def test_sensitivity_at_a_specificity_leaves_that_share_of_clear_images_alone():
    scores = np.array([0.0, 1.0, 2.0, 3.0, 0.5, 2.0, 2.5, 4.0])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert sensitivity_at(scores, labels, 0.75) == 0.5
    assert sensitivity_at(scores, labels, 1.0) == 0.25
    assert sensitivity_at(scores, labels, 0.0) == 1.0
