"""Pools merged at several depths: trained, bundled, moderated and evaluated."""

import numpy as np
import pytest
import torch
from drawn_shapes import SIZE, small_backbone

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.engines.resolution import at_resolution
from poolsieve.evaluation import EvaluationPlan, evaluate
from poolsieve.export import export_run
from poolsieve.images.datasets import load_dataset
from poolsieve.networks import multiply_adds
from poolsieve.networks.trained import load_model
from poolsieve.planning.timing import measured_price
from poolsieve.progress import Reporter
from poolsieve.training import Optimization, TrainingSettings
from poolsieve.training.run import train

SETTINGS = TrainingSettings(
    pool_sizes=(4,),
    merge="tree",
    again=("third",),
    views=2,
    individual_epochs=3,
    epochs=4,
    pools_per_epoch=200,
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
    root = tmp_path_factory.mktemp("tree")
    torch.set_num_threads(1)
    results = train(
        task,
        root / "run",
        SETTINGS,
        cache_dir=root / "cache",
        reporter=Reporter(quiet=True),
        backbone=small_backbone(),
    )
    return root, results, export_run(root / "run", root / "bundle", backbone=small_backbone())


def test_it_learns_to_count(run):
    root, results, _ = run
    assert results["counting"]["4"]["auc_0_1"] > 0.95
    model = load_model(root / "run", small_backbone())
    assert model.again == ("third",)
    cost = multiply_adds(small_backbone(), model.gate, tree=model.tree)
    assert results["cost"]["multiply_adds"] == vars(cost)
    third, fourth = 16 * 24 * 9 * 8 * 8, 24 * 32 * 9 * 4 * 4
    assert cost.pooled == 2 * third + fourth + cost.final


def test_the_bundle_costs_what_it_runs_and_says_how_it_merges(run, task, tmp_path):
    _, _, bundle = run
    config = load_bundle(bundle.path).config
    assert (config.merge, config.again, config.depths) == ("tree", ("third",), 2)
    assert "at several depths" in (bundle.path / "README.md").read_text()
    cost = config.cost
    assert cost.pooled - cost.final > cost.back  # the third stage runs twice for a pool
    plan = EvaluationPlan(
        (0.1,), images=200, tuning_images=200, timing_images=0, known_pools=100, methods=("dorfman", "mip")
    )
    found = evaluate(bundle, load_dataset(task), plan, engine="openvino", threads=1, cache_dir=tmp_path)
    for row in found.rows:
        law = row.pools * cost.pooled + row.retests * (cost.back + cost.final) + cost.front
        assert row.cost == pytest.approx(law / cost.whole)
        assert row.method == "mip" or row.detection.sensitivity.value > 0.8
    assert {row.method for row in found.rows} == {"individual", "dorfman", "mip"}


def test_a_tree_works_at_another_resolution_and_is_timed_as_a_whole(run):
    _, _, bundle = run
    half = at_resolution(bundle, SIZE // 2)
    assert half.config.cost.pooled == pytest.approx(bundle.config.cost.pooled / 4, rel=0.1)
    engine = open_engine(half, "openvino", threads=1)
    pixels = np.random.default_rng(0).integers(0, 255, (4, SIZE // 2, SIZE // 2, 3), dtype=np.uint8)
    features = engine.front(pixels).features
    four = engine.pooled(features, None, np.arange(4)[None], 4).logits
    turned = engine.pooled(features, None, np.array([[3, 2, 0, 1]]), 4).logits
    np.testing.assert_allclose(four, turned, atol=1e-4)
    assert measured_price(open_engine(bundle, "openvino", threads=1)).pooled > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"again": None}, "a tree merges again at cut points"),
        ({"merge": "max"}, "again=.*give them, or another merge"),
        ({"pool_sizes": (4, 8)}, "pools of one size"),
        ({"pool_sizes": (6,), "again": ("third", "fourth")}, "pools of 6 cannot be merged at 3 depths"),
        ({"tallies": True}, "no gate to tally"),
    ],
)
def test_settings_that_make_no_tree_are_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        TrainingSettings(**{"merge": "tree", "again": ("third",), **change})
