"""Outlier detection from images to verdicts: trained, bundled, moderated on every engine."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone

from poolsieve.bundles import export_run, load_bundle, verify_bundle
from poolsieve.engines import open_engine
from poolsieve.images.datasets import load_dataset
from poolsieve.moderation import Moderator
from poolsieve.outliers import OutlierReadings
from poolsieve.progress import Reporter
from poolsieve.schemes import list_schemes, make_scheme
from poolsieve.training import Optimization, TrainingPlan
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.models import load_model
from poolsieve.training.plan import OutlierSettings
from poolsieve.training.readings import read_images
from poolsieve.training.run import cached_features, train

QUICK = Optimization(learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0)
PLAN = TrainingPlan(
    pool_sizes=(4,),
    views=2,
    individual_epochs=4,
    epochs=4,
    pools_per_epoch=320,
    batch_images=16,
    batch_pools=16,
    validation_pools=100,
    test_pools=200,
    optimization=QUICK,
    outliers=OutlierSettings(clusters=(1, 2), mixture_pools=120, histogram_pools=40),
)


@pytest.fixture(scope="module", params=["combined", "density"])
def run(request, task, tmp_path_factory):
    """A run with its results and its bundle."""
    root = tmp_path_factory.mktemp(request.param)
    torch.set_num_threads(1)
    plan = replace(PLAN, outliers=replace(PLAN.outliers, reading=request.param))
    results = train(
        task,
        root / "run",
        plan,
        cache_dir=root / "cache",
        reporter=Reporter(quiet=True),
        backbone=small_backbone(),
    )
    bundle = export_run(root / "run", root / "bundle", backbone=small_backbone())
    return plan, root, results, bundle


def test_off_topic_images_and_pools_are_told(run):
    _, _, results, _ = run
    assert results["individual"]["auc"] > 0.99
    assert results["individual"]["sensitivity"] > 0.9
    assert results["individual"]["specificity"] > 0.9
    assert results["counting"]["4"]["auc_0_1"] > 0.95
    assert results["counting"]["4"]["within_one"] > 0.9


def test_the_bundle_is_whole_and_says_what_it_is(run):
    plan, _, _, bundle = run
    assert verify_bundle(bundle.path) == []
    assert bundle.config.kind == "outlier"
    assert "outliers.safetensors" in bundle.config.files
    assert bundle.outliers.individual.by_density == (plan.outliers.reading == "density")
    assert "off-topic" in (bundle.path / "README.md").read_text()


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_scores_of_the_bundle_are_those_of_the_trained_networks(run, task, engine):
    plan, root, _, bundle = run
    backbone = small_backbone()
    model = load_model(root / "run", backbone)
    dataset = load_dataset(task)
    array = cached_features(
        backbone, backbone.cut, dataset, "test", plan, root / "cache", Reporter(quiet=True)
    )
    inputs = CachedInputs(array, dataset.labels[dataset.of_split("test")])
    outliers = OutlierReadings.from_bytes((root / "run" / "outliers.safetensors").read_bytes())
    read = read_images(model.individual, model.gate, inputs)
    expected = outliers.individual.mixture.scores(read.vectors)
    evidence, labels = outliers.individual.read(read.individual, read.vectors)
    opened = open_engine(bundle, engine, threads=1)
    features = np.ascontiguousarray(array[:, 0].transpose(0, 3, 1, 2)).astype(np.float32)
    output = opened.individual(features)
    found = bundle.outliers.individual.mixture.scores(output.vectors)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(output.logits, evidence, atol=2e-2)
    assert (output.counts == labels).mean() > 0.97


@pytest.mark.parametrize("scheme", list_schemes())
def test_every_scheme_moderates_with_it(run, task, scheme):
    _, _, _, bundle = run
    options = {"pools_per_image": 2} if scheme == "oneshot" else {}
    made = (
        make_scheme(scheme, bundle.config.pool_sizes, prevalence=0.3, **options)
        if (scheme != "individual")
        else make_scheme(scheme, bundle.config.pool_sizes)
    )
    moderator = Moderator(bundle, open_engine(bundle, threads=1), made, seed=1)
    verdicts = list(moderator.moderate(task / "test"))
    flagged = np.array([verdict.flagged for verdict in verdicts])
    truth = np.array(["flagged" in verdict.path for verdict in verdicts])
    assert flagged[truth].mean() > 0.7
    assert flagged[~truth].mean() < 0.3


def test_the_papers_label_decides_about_pools_and_images(run):
    plan, _, _, bundle = run
    if plan.outliers.reading != "density":
        pytest.skip("labels are the histogram's with density alone")
    rng = np.random.default_rng(0)
    for reading, outputs in ((bundle.outliers.individual, 2), (bundle.outliers.counting[4], 5)):
        vectors = rng.normal(size=(200, bundle.config.feature_width)) * np.linspace(0, 3, 200)[:, None]
        logits, counts = reading.read(np.zeros((200, outputs)), vectors)
        expected = reading.histogram.counts(reading.mixture.scores(vectors))
        assert counts.tolist() == expected.tolist()
        if outputs == 2:
            assert (logits.argmax(axis=1) == counts).all()


def test_a_damaged_outlier_file_is_found(run, tmp_path):
    import shutil

    _, _, _, bundle = run
    folder = shutil.copytree(bundle.path, tmp_path / "copy")
    content = bytearray((folder / "outliers.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "outliers.safetensors").write_bytes(content)
    assert any("outliers.safetensors is damaged" in line for line in verify_bundle(folder))
    with pytest.raises(ValueError, match=r"outliers\.safetensors"):
        load_bundle(folder)
    config = json.loads((folder / "config.json").read_text())
    config["kind"] = "classification"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="extra"):
        load_bundle(folder)
