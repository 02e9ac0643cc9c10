"""Outlier detection from images to verdicts: trained, bundled, moderated on every engine, evaluated."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from evaluation_section import section

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.calibration import Calibration
from poolsieve.engines import open_engine
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.competitors import COMPETITORS
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.feature_cache import record_images
from poolsieve.evaluation.mixtures import draw_mixture
from poolsieve.evaluation.recorded_networks import RecordedNetworks
from poolsieve.evaluation.recorded_splits import images_of
from poolsieve.evaluation.report_page import page
from poolsieve.evaluation.scheme_runs import run_scheme
from poolsieve.export import export_run, save_bundle
from poolsieve.images.datasets import load_dataset
from poolsieve.moderation import Moderator
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel, list_schemes, make_scheme
from poolsieve.training import Optimization, TrainingSettings
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import read_images, read_pools
from poolsieve.training.outlier_fitting import fit_outliers
from poolsieve.training.run import train
from poolsieve.training.run_results import measure
from poolsieve.training.sampling import draw_pools
from poolsieve.training.settings import GlanceSettings, OutlierSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.validation import calibrate

QUICK = Optimization(learning_rate=5e-3, pretrained_rate=1.0, averaging=0.8, dropout=0.0, label_smoothing=0.0)
SETTINGS = TrainingSettings(
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
    glance=GlanceSettings(epochs=4, batch_images=16),
)


@pytest.fixture(scope="module")
def trained(task, tmp_path_factory):
    """A run that combines density and logits: its folder and its results."""
    root = tmp_path_factory.mktemp("outliers")
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


def split_inputs(root, task, split):
    quiet = Reporter(quiet=True)
    return SplitFeatures(small_backbone(), load_dataset(task), SETTINGS, root / "cache", quiet).cached(split)


@pytest.fixture(scope="module", params=["combined", "density"])
def run(request, trained, task):
    """The run's folder, its results and its bundle, by either reading of the same networks."""
    root, results = trained
    torch.set_num_threads(1)
    if request.param == "combined":
        bundle = export_run(root / "run", root / "combined", backbone=small_backbone())
        return SETTINGS, root, results, bundle
    drawn = replace(SETTINGS.outliers, reading="density", mixture_passes=8, histogram_images=60)
    settings = replace(SETTINGS, outliers=drawn)
    model = load_model(root / "run", small_backbone())
    inputs = {split: split_inputs(root, task, split) for split in ("train", "val", "test")}
    outliers = fit_outliers(model, inputs["train"], inputs["val"], settings, Reporter(quiet=True))
    calibration = calibrate(model, inputs["val"], settings, outliers)
    known = Calibration.load(root / "run" / "calibration.json")
    calibration = replace(calibration, glance=known.glance, glance_roc=known.glance_roc)
    bundle = save_bundle(
        root / "density", model, calibration, task="shapes", resize_mode="pad", outliers=outliers
    )
    return settings, root, measure(model, inputs["test"], settings, outliers), bundle


def test_off_topic_images_and_pools_are_told(run):
    _, _, results, _ = run
    assert results["individual"]["auc"] > 0.99
    assert results["individual"]["sensitivity"] > 0.9
    assert results["individual"]["specificity"] > 0.9
    assert results["counting"]["4"]["auc_0_1"] > 0.95
    assert results["counting"]["4"]["within_one"] > 0.9
    assert results["counting"]["2"]["auc_0_1"] > 0.95


def test_the_bundle_is_whole_and_says_what_it_is(run):
    settings, _, _, bundle = run
    assert verify_bundle(bundle.path) == []
    assert bundle.config.kind == "outlier"
    assert "outliers.safetensors" in bundle.config.files
    assert bundle.config.counting == "shared"
    assert "pooled-2.onnx" not in bundle.config.files
    assert bundle.outliers.individual.by_density == (settings.outliers.reading == "density")
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
    cases = [(bundle.outliers.individual, images.logits, images.vectors, opened.individual(plain))]
    for size, numbers in ((2, [20, 10, 5]), (4, [20, 10, 5, 5, 5])):
        pools = draw_pools(inputs.labels, numbers, np.random.default_rng(0))
        by_torch = read_pools(model.counting[size], inputs, pools)
        output = opened.pooled(plain, gate, pools.members, size)
        cases.append((bundle.outliers.counting[size], by_torch.logits, by_torch.vectors, output))
    for reading, logits, vectors, output in cases:
        expected, counts = reading.read(logits, vectors)
        np.testing.assert_allclose(output.vectors, vectors, atol=1e-4 * np.abs(vectors).max())
        # Densities magnify rounding where a feature hardly varies on topic, or few pools lie.
        close = np.isclose(output.logits, expected, rtol=1e-2, atol=2e-2)
        assert close.mean() > 0.97
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
    settings, _, _, bundle = run
    if settings.outliers.reading != "density":
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
    fit_outliers(model, inputs["train"], turned, SETTINGS, Reporter())
    assert "wrong way round" in capsys.readouterr().err


def test_too_few_images_and_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="clusters"):
        OutlierSettings(clusters=())
    with pytest.raises(ValueError, match="reading"):
        OutlierSettings(reading="magic")
    with pytest.raises(ValueError, match="histogram_pools"):
        OutlierSettings(histogram_pools=0)


def test_every_method_is_evaluated_on_off_topic_images(run, task, tmp_path):
    settings, _, _, bundle = run
    found = evaluate(
        bundle,
        load_dataset(task),
        EvaluationPlan(prevalences=(0.1,), images=200, tuning_images=200, timing_images=20, known_pools=200),
        engine="openvino",
        threads=1,
        cache_dir=tmp_path,
    )
    rows = {row.method: row for row in found.rows}
    # Pools of 4 put every image into two, of which NCOMP-2 would never flag one.
    asked = [c for c in COMPETITORS.values() if not (c.planned or c.by_name or c.binary)]
    kept = [c.name for c in asked if c.least_pools <= 2]
    assert list(rows) == [
        *kept,
        *(name for name in rows if name in list_schemes() and name not in COMPETITORS),
    ]
    for name in ("individual", "dorfman", "bp", "adaptive"):
        assert rows[name].detection.sensitivity.value > 0.7
        assert rows[name].detection.specificity.value > 0.85
    # The networks were trained at twice the size, so they only have to know something.
    half = rows["downsample"]
    assert half.cost < 0.35
    assert half.detection.sensitivity.value + half.detection.specificity.value > 1.3
    assert [(table.half, table.split, len(table.pools)) for table in found.confusions] == [
        (half, split, size + 1) for half in (False, True) for split in ("val", "test") for size in (2, 4)
    ]
    assert found.two_objects is None
    alone = settings.outliers.reading == "density"
    assert any(note.endswith("alone, as in the paper.") for note in found.notes) == alone
    for text in (page(found), section(found, {}, tmp_path)):
        assert "off-topic images read" in text
        assert "bad" not in text


def test_the_paper_s_reading_can_be_evaluated_alone(run, task, tmp_path):
    _, _, _, bundle = run
    data = load_dataset(task)
    plan = EvaluationPlan(
        prevalences=(0.2,),
        images=200,
        tuning_images=100,
        timing_images=0,
        known_pools=100,
        methods=("bp-hard",),
        by_density=True,
    )
    found = evaluate(bundle, data, plan, engine="openvino", threads=1, cache_dir=tmp_path)
    assert any(note.endswith("alone, as in the paper.") for note in found.notes)
    assert found.rows[0].detection.sensitivity.value > 0.85


def test_without_training_images_nothing_is_tried_at_half_size(run, task, tmp_path):
    _, _, _, bundle = run
    data = load_dataset(task)
    kept = np.where(data.splits == "train", "", data.splits)
    plan = EvaluationPlan(
        prevalences=(0.2,),
        images=100,
        tuning_images=100,
        timing_images=0,
        known_pools=60,
        methods=("downsample",),
    )
    found = evaluate(
        bundle, replace(data, splits=kept), plan, engine="openvino", threads=1, cache_dir=tmp_path
    )
    assert [row.method for row in found.rows] == ["individual"]
    assert any("Nothing was tried at half size: the data have 0 on-topic" in note for note in found.notes)


@pytest.mark.parametrize("scheme", ["dorfman", "adaptive"])
def test_records_are_read_as_moderation_reads(run, task, tmp_path, scheme):
    _, _, _, bundle = run
    images = images_of(load_dataset(task), "test")
    own = open_engine(replace(bundle, outliers=None), "openvino", threads=1)
    (tmp_path / "cache").mkdir()
    records = record_images(tmp_path / "cache", own, images, Reporter(quiet=True))
    networks = RecordedNetworks(records, own, outliers=bundle.outliers)
    mixture = draw_mixture(images.labels, 0.2, 100, np.random.default_rng(0))
    made = make_scheme(scheme, bundle.config.pool_sizes, prevalence=0.2)
    trial = run_scheme(
        made, mixture, networks, LikelihoodModel(bundle.calibration), bundle.config.cost, gated=True, seed=3
    )
    moderator = Moderator(bundle, open_engine(bundle, "openvino", threads=1), made, seed=3, reading_threads=1)
    verdicts = list(moderator.moderate([str(images.files[k]) for k in mixture.images]))
    assert [verdict.flagged for verdict in verdicts] == trial.flags.tolist()
    np.testing.assert_allclose([verdict.score for verdict in verdicts], trial.scores, atol=1e-3)
