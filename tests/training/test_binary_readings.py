"""Networks that tell whether a pool is clean (BPNN, BMPNN): trained, bundled, moderated and evaluated."""

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from drawn_weights import draw_weights, drawn

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.competitors import COMPETITORS
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.export import export_run
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
