"""Outlier detection from images to verdicts: trained, bundled, moderated on every engine."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone

from poolsieve.bundles import export_run, load_bundle, save_bundle, verify_bundle
from poolsieve.engines import open_engine
from poolsieve.images.datasets import load_dataset
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.schemes import list_schemes, make_scheme
from poolsieve.training import Optimization, TrainingPlan
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.models import load_model
from poolsieve.training.outliers import fit_outliers
from poolsieve.training.plan import OutlierSettings
from poolsieve.training.readings import read_images, read_pool_vectors
from poolsieve.training.results import measure
from poolsieve.training.run import cached_features, train
from poolsieve.training.sampling import draw_pools
from poolsieve.training.validation import calibrate

QUICK = Optimization(learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0)
PLAN = TrainingPlan(
    pool_sizes=(2, 4),
    views=2,
    individual_epochs=4,
    epochs=3,
    pools_per_epoch=200,  # longer, and the gate shuts out all that tells on-topic pools apart
    batch_images=16,
    batch_pools=16,
    validation_pools=100,
    test_pools=200,
    optimization=QUICK,
    outliers=OutlierSettings(clusters=(1, 2), mixture_pools=120, histogram_pools=40),
)


@pytest.fixture(scope="module")
def trained(task, tmp_path_factory):
    """A run that combines density and logits: its folder and its results."""
    root = tmp_path_factory.mktemp("outliers")
    torch.set_num_threads(1)
    results = train(
        task,
        root / "run",
        PLAN,
        cache_dir=root / "cache",
        reporter=Reporter(quiet=True),
        backbone=small_backbone(),
    )
    return root, results


def split_inputs(root, task, split):
    backbone, dataset = small_backbone(), load_dataset(task)
    array = cached_features(
        backbone, backbone.cut, dataset, split, PLAN, root / "cache", Reporter(quiet=True)
    )
    return CachedInputs(array, dataset.labels[dataset.of_split(split)])


@pytest.fixture(scope="module", params=["combined", "density"])
def run(request, trained, task):
    """The run's folder, its results and its bundle, by either reading of the same networks."""
    root, results = trained
    torch.set_num_threads(1)
    if request.param == "combined":
        bundle = export_run(root / "run", root / "combined", backbone=small_backbone())
        return PLAN, root, results, bundle
    plan = replace(PLAN, outliers=replace(PLAN.outliers, reading="density"))
    model = load_model(root / "run", small_backbone())
    inputs = {split: split_inputs(root, task, split) for split in ("train", "val", "test")}
    outliers = fit_outliers(model, inputs["train"], inputs["val"], plan, Reporter(quiet=True))
    calibration = calibrate(model, inputs["val"], plan, outliers)
    bundle = save_bundle(
        root / "density", model, calibration, task="shapes", squaring="pad", outliers=outliers
    )
    return plan, root, measure(model, inputs["test"], plan, outliers), bundle


def test_off_topic_images_and_pools_are_told(run):
    _, _, results, _ = run
    assert results["individual"]["auc"] > 0.99
    assert results["individual"]["sensitivity"] > 0.9
    assert results["individual"]["specificity"] > 0.9
    assert results["counting"]["4"]["auc_0_1"] > 0.95
    assert results["counting"]["4"]["within_one"] > 0.9
    assert results["counting"]["2"]["auc_0_1"] > 0.95


def test_the_bundle_is_whole_and_says_what_it_is(run):
    plan, _, _, bundle = run
    assert verify_bundle(bundle.path) == []
    assert bundle.config.kind == "outlier"
    assert "outliers.safetensors" in bundle.config.files
    assert bundle.config.counting == "shared"
    assert "pooled-2.onnx" not in bundle.config.files
    assert bundle.outliers.individual.by_density == (plan.outliers.reading == "density")
    assert "off-topic" in (bundle.path / "README.md").read_text()


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_scores_of_the_bundle_are_those_of_the_trained_networks(run, task, engine):
    _, root, _, bundle = run
    model, inputs = load_model(root / "run", small_backbone()), split_inputs(root, task, "test")
    features = inputs.plain(np.arange(len(inputs.labels)))
    opened = open_engine(bundle, engine, threads=1)
    images = read_images(model.individual, model.gate, inputs)
    plain = features.contiguous().numpy()
    gate = opened.head(plain).gate
    cases = [(bundle.outliers.individual, images.individual, images.vectors, opened.individual(plain))]
    for size, numbers in ((2, [20, 10, 5]), (4, [20, 10, 5, 5, 5])):
        pools = draw_pools(inputs.labels, numbers, np.random.default_rng(0))
        by_torch = read_pool_vectors(model.counting[size], inputs, pools)
        output = opened.pooled(plain, gate, pools.members, size)
        cases.append((bundle.outliers.counting[size], by_torch.logits, by_torch.vectors, output))
    for reading, logits, vectors, output in cases:
        expected, counts = reading.read(logits, vectors)
        scores = reading.mixture.scores(vectors)
        np.testing.assert_allclose(reading.mixture.scores(output.vectors), scores, rtol=1e-3, atol=1e-2)
        np.testing.assert_allclose(output.logits, expected, atol=2e-2)
        assert (output.counts == counts).mean() > 0.95  # a score may fall on the border of a bin


@pytest.mark.parametrize("scheme", list_schemes())
def test_every_scheme_moderates_with_it(run, task, scheme):
    _, _, _, bundle = run
    options = {} if scheme == "individual" else {"prevalence": 0.3}
    if scheme == "oneshot":
        options |= {"pools_per_image": 2, "decoder": "bp"}
    made = make_scheme(scheme, bundle.config.pool_sizes, **options)
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


def test_swapped_labels_are_warned_of(trained, task, capsys):
    root, _ = trained
    model = load_model(root / "run", small_backbone())
    inputs = {split: split_inputs(root, task, split) for split in ("train", "val")}
    # The training labels are right and those of validation are not: "off-topic" looks typical.
    turned = CachedInputs(inputs["val"].array, 1 - inputs["val"].labels)
    fit_outliers(model, inputs["train"], turned, PLAN, Reporter())
    assert "wrong way round" in capsys.readouterr().err


def test_too_few_images_and_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="clusters"):
        OutlierSettings(clusters=())
    with pytest.raises(ValueError, match="reading"):
        OutlierSettings(reading="magic")
    with pytest.raises(ValueError, match="histogram_pools"):
        OutlierSettings(histogram_pools=0)
