from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import draw_task, small_backbone

from poolsieve.images import ViewSettings, load_dataset
from poolsieve.training import TrainingSettings, split_features
from poolsieve.training.extractors import front_extractor
from poolsieve.training.inputs import ViewSet
from poolsieve.training.split_features import SplitFeatures

VIEWS = ViewSet(32, random_views=2, seed=0)


@pytest.fixture
def build(task, tmp_path, quiet, monkeypatch):
    """Caches features of the small network; gives them, and how many inputs its front saw."""

    def call(views=VIEWS, split="train", backbone=None, dataset=None):
        seen = []

        def counting(*given):
            extract = front_extractor(*given)
            return lambda pixels: seen.append(len(pixels)) or extract(pixels)

        monkeypatch.setattr(split_features, "front_extractor", counting)
        network = (backbone or small_backbone()).eval()
        splits = SplitFeatures(
            network, dataset or load_dataset(task), TrainingSettings(), tmp_path / "cache", quiet
        )
        return splits.cached(split, views=views).array, sum(seen)

    return call


def test_cached_features_equal_the_front(task, build):
    backbone = small_backbone().eval()
    cache, _ = build(backbone=backbone)
    dataset = load_dataset(task)
    assert cache.shape == (96, 3, 8, 8, 16)
    assert cache.dtype == np.float16
    for place in (0, 17, 95):
        row = dataset.of_split("train")[place]
        pixels = VIEWS.render(dataset.files[row], dataset.digests[row])
        with torch.no_grad():
            inputs = backbone.preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
            expected = backbone.front(inputs).permute(0, 2, 3, 1).numpy()
        assert np.abs(cache[place] - expected).max() < 0.01
    plain, *others = VIEWS.render(dataset.files[0], dataset.digests[0])
    assert all((view != plain).any() for view in others)


def test_features_can_go_on_from_an_earlier_cut_point(task, quiet, tmp_path):
    settings = TrainingSettings(front="tuned", tune_from="first", front_epochs=1, views=3)
    backbone, dataset = small_backbone().eval(), load_dataset(task)
    frozen = replace(settings, front="frozen", tune_from=None, front_epochs=0)
    assert backbone.cut == "second"
    whole = SplitFeatures(backbone, dataset, frozen, tmp_path / "whole", quiet).cached("train").array
    tail = SplitFeatures(backbone, dataset, settings, tmp_path / "tail", quiet).cached("train").array
    assert len(list((tmp_path / "tail").iterdir())) == 2  # features after "first", and after "second"
    assert tail.shape == whole.shape
    assert np.abs(tail.astype(float) - whole).max() < 0.02
    assert np.abs(tail).max() > 0.5


def test_a_complete_cache_is_reused(build):
    build()
    cache, seen = build()
    assert seen == 0
    assert cache.shape[1] == 3


def other_weights():
    """The small network with one number of its front changed."""
    backbone = small_backbone()
    with torch.no_grad():
        next(backbone.front.parameters()).flatten()[0] += 1
    return backbone


@pytest.mark.parametrize(
    "change",
    [
        {"views": replace(VIEWS, random_views=1)},
        {"views": replace(VIEWS, seed=1)},
        {"views": replace(VIEWS, resize_mode="stretch")},
        {"views": replace(VIEWS, settings=ViewSettings(rotation=10))},
        {"backbone": other_weights()},
        {"split": "val"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_makes_another_cache(build, change):
    build()
    assert build(**change)[1] > 0


def test_changed_images_make_another_cache(build, tmp_path):
    build()
    other = load_dataset(draw_task(tmp_path / "other", seed=5))
    assert build(dataset=other)[1] == 96 * 3
