"""A bundle's individual network teaches what looks at single images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import SHORT_SETTINGS, draw_task, small_backbone

from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.export import export_run
from poolsieve.images.datasets import load_dataset
from poolsieve.progress import Reporter
from poolsieve.training.run import train
from poolsieve.training.settings import OutlierSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.teaching import LABEL_SHARE, TEMPERATURE, Teacher, taught_loss

QUIET = Reporter(quiet=True)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    return tmp_path_factory.mktemp("caches")


def run(task, out, settings, caches, **names):
    torch.set_num_threads(1)
    return train(task, out, settings, cache_dir=caches, reporter=QUIET, backbone=small_backbone(), **names)


@pytest.fixture(scope="module")
def teacher(task, tmp_path_factory, caches):
    """A bundle that learnt the wrong way round."""
    folder = tmp_path_factory.mktemp("teacher")
    run(task, folder / "run", SHORT_SETTINGS, caches, flagged=["clear"], clear=["flagged"])
    return export_run(folder / "run", folder / "bundle", backbone=small_backbone()).path


def test_who_learns_follows_the_teacher_even_where_labels_say_otherwise(task, teacher, tmp_path, caches):
    alone = run(task, tmp_path / "alone", SHORT_SETTINGS, caches)
    taught = run(task, tmp_path / "taught", replace(SHORT_SETTINGS, taught_by=str(teacher)), caches)
    assert alone["individual"]["auc"] > 0.8
    # Validation labels choose the epoch that follows the teacher least.
    assert taught["individual"]["auc"] < alone["individual"]["auc"] - 0.1


def test_cached_views_come_with_what_the_teacher_says_of_them(task, teacher, caches):
    dataset, backbone = load_dataset(task), small_backbone()
    settings = replace(SHORT_SETTINGS, views=3, resize_mode="stretch")
    features = SplitFeatures(backbone, dataset, settings, caches, QUIET, Teacher(teacher))
    made = features.cached("train")
    assert features.cached("val").taught is None
    views, engine = features.views("train"), open_engine(load_bundle(teacher), threads=1)
    for place, row in enumerate(dataset.of_split("train")[:4]):
        pixels = views.render(dataset.files[row], dataset.digests[row])
        logits = engine.individual(engine.front(pixels).features).logits
        assert made.taught[place] == pytest.approx(logits[:, 1] - logits[:, 0], abs=1e-3)
    positions = np.arange(5)
    drawn, taught = made.draw_taught(positions, np.random.default_rng(1))
    for k, position in enumerate(positions):
        view = int(np.flatnonzero(made.taught[position] == taught[k].item())[0])
        assert np.array_equal(drawn[k].permute(1, 2, 0).half().numpy(), made.array[position, view])


def test_the_teacher_that_an_interrupted_run_had_must_be_the_same(task, teacher, tmp_path, caches):
    other = export_run(teacher.parent / "run", tmp_path / "other", backbone=small_backbone(), notes="Other.")
    out, link = tmp_path / "run", tmp_path / "teacher"
    link.symlink_to(teacher)
    settings = replace(SHORT_SETTINGS, individual_epochs=1, epochs=1, taught_by=str(link))
    run(task, out, settings, caches)
    link.unlink()
    link.symlink_to(other.path)
    with pytest.raises(ValueError, match="teacher"):
        run(task, out, settings, caches)


def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_made(task, teacher, tmp_path, caches):
    with pytest.raises(ValueError, match="a teacher is for classification"):
        replace(SHORT_SETTINGS, taught_by=str(teacher), outliers=OutlierSettings())
    with pytest.raises(ValueError, match="finds off-topic images"):
        Teacher("cars")
    with pytest.raises(ValueError, match="takes images of 224 pixels"):
        run(task, tmp_path / "run", replace(SHORT_SETTINGS, taught_by="firearms"), caches)
    assert not (tmp_path / "run").exists()


def test_the_loss_is_least_where_the_teacher_is():
    taught, labels = torch.tensor([4.0, -1.0]), torch.tensor(0.0)
    losses = [float(taught_loss(taught + shift, taught, labels)) for shift in (-1.0, 0.0, 1.0)]
    assert losses[1] == min(losses)
    softened = torch.sigmoid(taught / TEMPERATURE)
    entropy = -(softened * softened.log() + (1 - softened) * (1 - softened).log()).mean()
    assert losses[1] == pytest.approx((1 - LABEL_SHARE) * TEMPERATURE * float(entropy), rel=1e-5)
