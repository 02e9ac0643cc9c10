"""One counting network for several pool sizes."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from drawn_weights import draw_weights
from safetensors.torch import load_file
from torch.nn import functional

from poolsieve.calibration import Calibration
from poolsieve.images import load_dataset
from poolsieve.networks import PooledNetwork
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.training import Optimization, TrainingSettings, make_settings
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import read_pools
from poolsieve.training.pool_learners import CountingLearner, pool_figures
from poolsieve.training.run import train
from poolsieve.training.run_results import measure
from poolsieve.training.sampling import draw_pools, pool_shares, split_by_shares
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.validation import raise_clean_readings

SETTINGS = TrainingSettings(
    pool_sizes=(4, 2),
    tallies=True,
    clean_share=0.9,
    views=2,
    individual_epochs=4,
    epochs=5,
    pools_per_epoch=400,
    batch_images=16,
    batch_pools=16,
    validation_pools=100,
    test_pools=200,
    optimization=Optimization(
        learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0
    ),
)


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
    """A run with one network for pools of 2 and of 4: its folder and its results."""
    root = tmp_path_factory.mktemp("shared")
    torch.set_num_threads(1)
    results = train(
        task,
        root / "run",
        SETTINGS,
        cache_dir=root / "cache",
        reporter=Reporter(quiet=True),
        backbone=small_backbone(),
    )
    return root, results


def test_one_network_counts_in_pools_of_either_size(run):
    root, results = run
    for size in ("2", "4"):
        assert results["counting"][size]["exact"] > 0.85
        assert results["counting"][size]["auc_0_1"] > 0.97
        assert len(results["counting"][size]["confusion"]) == int(size) + 1
    assert set(Calibration.load(root / "run" / "calibration.json").counting) == {2, 4}


def test_it_learns_in_one_phase_whose_history_tells_of_both_sizes(run):
    root, _ = run
    with (root / "run" / "history.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["phase"] != "individual"]
    assert [row["phase"] for row in rows] == ["counting-2-4"] * SETTINGS.epochs
    for name in ("exact", "within_one", "auc_0_1", "exact_2", "within_one_2", "auc_0_1_2"):
        assert 0.5 < float(rows[-1][name]) <= 1
    assert float(rows[-1]["loss"]) < 0.6 * float(rows[0]["loss"])


def test_its_weights_are_stored_once_and_read_back(run, task):
    root, results = run
    stored = [name.split(".") for name in load_file(root / "run" / "model.safetensors")]
    assert {parts[1] for parts in stored if parts[0] == "counting"} == {"4"}
    assert json.loads((root / "run" / "config.json").read_text())["counting"] == "shared"
    model = load_model(root / "run", small_backbone())
    assert set(model.counting) == {2, 4}
    assert model.counting[2].back is model.counting[4].back
    quiet = Reporter(quiet=True)
    splits = SplitFeatures(model.backbone, load_dataset(task), SETTINGS, root / "cache", quiet)
    inputs = splits.cached("test")
    assert {**measure(model, inputs, SETTINGS), "unreadable_images": 0} == results


@pytest.fixture
def learner():
    rng = np.random.default_rng(0)
    inputs = CachedInputs(rng.random((60, 2, 8, 8, 16)).astype(np.float16), np.array([0, 1] * 30))
    network = PooledNetwork(small_backbone(), 4, merge="gated")
    draw_weights(network.gate)
    draw_weights(network.final)
    settings = replace(SETTINGS, pools_per_epoch=90, count_smoothing=0.2)
    return CountingLearner(network, inputs, inputs, settings, sizes=settings.pool_sizes), inputs, settings


def test_clean_pools_are_read_as_clean_as_often_as_wanted(learner):
    trained, inputs, settings = learner
    network = trained.module
    clean = draw_pools(inputs.labels, [settings.validation_pools, 0, 0, 0, 0], np.random.default_rng(1))
    with torch.no_grad():
        network.final.bias[0] -= 5
    assert np.mean(read_pools(network, inputs, clean).logits.argmax(axis=1) == 0) < 0.5
    before = network.final.bias.clone()
    assert raise_clean_readings(network, inputs, replace(settings, clean_share=None)) == 0
    assert torch.equal(network.final.bias, before)
    raised = raise_clean_readings(network, inputs, replace(settings, clean_share=0.9))
    assert raised > 0
    assert torch.allclose(network.final.bias - before, torch.tensor([raised, 0, 0, 0, 0]))
    read = np.mean(read_pools(network, inputs, clean).logits.argmax(axis=1) == 0)
    assert 0.75 < read < 0.99  # other pools than those that it was fitted to, of the same images
    assert raise_clean_readings(network, inputs, replace(settings, clean_share=0.9)) == 0
    with pytest.raises(ValueError, match="clean_share"):
        replace(settings, clean_share=1.5)


def test_an_epoch_has_as_many_pools_of_either_size_with_its_shares(learner):
    trained, inputs, settings = learner
    steps = trained.steps(1)
    for place, size in enumerate((2, 4)):
        members = np.concatenate([step[place].positions for step in steps])
        counts = np.concatenate([step[place].counts for step in steps])
        assert members.shape == (45, size)
        assert np.array_equal(inputs.labels[members].sum(axis=1), counts)
        wanted = split_by_shares(45, pool_shares(size))
        assert np.bincount(counts, minlength=size + 1).tolist() == wanted.tolist()
    assert all(sum(len(batch.counts) for batch in step) == settings.batch_pools for step in steps[:-1])
    again = CountingLearner(trained.module, inputs, inputs, settings, sizes=(4, 2))
    first, second = trained.load(steps[2]), again.load(again.steps(1)[2])
    assert all(torch.equal(one.features, other.features) for one, other in zip(first, second, strict=True))


def test_the_loss_takes_only_the_counts_that_a_pool_can_have(learner):
    trained, _, settings = learner
    network = trained.module.eval()
    loaded = trained.load(trained.steps(0)[0])
    expected = []
    for pools in loaded:
        number = len(pools.counts)
        table = np.arange(pools.size * number).reshape(pools.size, number).T
        outputs = network(pools.features, table)
        logits = outputs.logits[:, : pools.size + 1].log_softmax(dim=1)
        smoothed = torch.zeros_like(logits)
        for row, count in enumerate(pools.counts.tolist()):
            smoothed[row, count] += 0.8
            for neighbour in (count - 1, count + 1):
                smoothed[row, min(max(neighbour, 0), pools.size)] += 0.1
        counted = -(smoothed * logits).sum(dim=1).mean()
        head = functional.binary_cross_entropy_with_logits(outputs.image_logits, pools.labels.float())
        expected.append(counted + settings.head_weight * head)
    step = trained.loss(loaded)
    torch.testing.assert_close(step.loss, torch.stack(expected).mean())
    assert step.seen == sum(len(pools.counts) for pools in loaded) == settings.batch_pools


def test_the_mean_over_sizes_selects(learner):
    trained, inputs, settings = learner
    network = trained.module.eval()
    figures = trained.judge(network)
    every = {size: pool_figures(network.for_pools_of(size), inputs, settings) for size in (2, 4)}
    assert figures["score"] == pytest.approx((every[2]["score"] + every[4]["score"]) / 2)
    assert (figures["exact"], figures["exact_2"]) == (every[4]["exact"], every[2]["exact"])


def test_a_front_that_learns_from_pools_shares_the_network_too(task, quiet, tmp_path):
    settings = replace(
        SETTINGS,
        front="tuned",
        front_learns_from="pools",
        tune_from="first",
        front_epochs=2,
        individual_epochs=0,
        epochs=0,
        pools_per_epoch=160,
        validation_pools=40,
        test_pools=40,
    )
    out = tmp_path / "run"
    results = train(
        task, out, settings, cache_dir=tmp_path / "cache", reporter=quiet, backbone=small_backbone()
    )
    assert results["counting"]["2"]["auc_0_1"] > 0.8
    model = load_model(out, small_backbone())
    assert model.counting[2].back is model.counting[4].back


def test_the_setting_is_checked_and_the_papers_networks_are_separate():
    with pytest.raises(ValueError, match="counting='both', but it must be one of shared, separate"):
        replace(SETTINGS, counting="both")
    assert (make_settings().counting, make_settings("paper").counting) == ("shared", "separate")
