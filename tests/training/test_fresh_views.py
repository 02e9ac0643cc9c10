"""Views that are drawn anew for every epoch, and the extractors that make their features."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_shapes import small_backbone
from torch import nn

from poolsieve.images import load_dataset
from poolsieve.networks import Preprocessing
from poolsieve.training import TrainingSettings
from poolsieve.training.extractors import front_extractor, tail_extractor
from poolsieve.training.inputs import CachedInputs, FreshInputs
from poolsieve.training.split_features import SplitFeatures

PREPROCESSING = Preprocessing(mean=(100.0,) * 3, scale=(50.0,) * 3)
SETTINGS = TrainingSettings(pool_sizes=(4,), fresh_views=2)


@pytest.fixture
def fresh(task, tmp_path, quiet):
    dataset = load_dataset(task)

    def of(phase="counting-4", settings=SETTINGS):
        backbone = small_backbone().eval()
        splits = SplitFeatures(backbone, dataset, settings, tmp_path / "cache", quiet)
        return splits.fresh(splits.cached("train"), phase, tmp_path / "fresh")

    return of


def features(inputs, epoch):
    inputs.begin(epoch)
    return inputs.draw(np.arange(12), np.random.default_rng(0)).numpy()


def test_every_epoch_has_views_of_its_own(fresh):
    inputs = fresh()
    first, second = features(inputs, 0), features(inputs, 1)
    assert not np.allclose(first, second)
    assert not np.allclose(first, features(fresh("individual"), 0))
    assert not np.allclose(first, features(fresh(settings=replace(SETTINGS, seed=1)), 0))


def test_an_epoch_begun_again_has_the_same_views(fresh):
    first = features(fresh(), 3)
    assert np.array_equal(first, features(fresh(), 3))


def test_only_the_views_of_one_epoch_are_kept(fresh, tmp_path):
    inputs = fresh()
    for epoch in range(3):
        inputs.begin(epoch)
    assert [path.name for path in (tmp_path / "fresh").iterdir()] == ["counting-4-2"]


def test_each_image_has_several_views_in_an_epoch(fresh):
    inputs = fresh()
    inputs.begin(0)
    same = np.zeros(300, dtype=np.int64)
    drawn = inputs.draw(same, np.random.default_rng(0)).numpy().reshape(300, -1)
    kinds, numbers = np.unique(drawn, axis=0, return_counts=True)
    assert len(kinds) == 1 + SETTINGS.fresh_views
    whole = inputs._whole.plain(same[:1]).numpy().reshape(-1)
    plain = numbers[(kinds == whole).all(axis=1)]
    assert plain == pytest.approx(100, abs=30)  # a third, as judged


def test_drawing_before_an_epoch_is_an_error():
    whole = CachedInputs(np.zeros((2, 1, 1, 1, 1), np.float16), np.array([0, 1]))
    inputs = FreshInputs(whole, lambda epoch: whole.array)
    with pytest.raises(RuntimeError, match="begin an epoch"):
        inputs.draw(np.array([0]), np.random.default_rng(0))


def by_hand(front, pixels):
    with torch.inference_mode():
        inputs = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 100) / 50
        return front.eval()(inputs).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("number", [1, 2, 5])
def test_the_front_extractor_gives_what_torch_gives(number):
    front = small_backbone().eval().front
    pixels = np.random.default_rng(1).integers(256, size=(number, 32, 32, 3)).astype(np.uint8)
    given = front_extractor(front, PREPROCESSING, 32)(pixels)
    assert given.dtype == np.float16
    assert given.astype(np.float32) == pytest.approx(by_hand(front, pixels), abs=5e-3, rel=5e-3)


def test_the_tail_extractor_goes_on_from_earlier_features():
    backbone = small_backbone().eval()
    shape = backbone.stage_shapes["first"]
    earlier = np.random.default_rng(1).random((3, shape[1], shape[2], shape[0])).astype(np.float16)
    given = tail_extractor(backbone.segment("first", "second"), shape)(earlier)
    with torch.inference_mode():
        inputs = torch.from_numpy(earlier).float().permute(0, 3, 1, 2)
        expected = backbone.segment("first", "second")(inputs).permute(0, 2, 3, 1).numpy()
    assert given.astype(np.float32) == pytest.approx(expected, abs=5e-3, rel=5e-3)


class Unknown(nn.Module):
    """An operator that ONNX does not have."""

    def forward(self, images):
        return torch.fft.fft2(images).abs()


class Misread(nn.Module):
    """Something that a traced graph takes for a constant."""

    def forward(self, images):
        return images * float(images[0, 0, 0, 0])


@pytest.mark.parametrize("front", [Unknown(), Misread()])
def test_what_openvino_cannot_run_or_runs_differently_stays_with_torch(front):
    pixels = np.random.default_rng(1).integers(80, 120, size=(2, 16, 16, 3)).astype(np.uint8)
    given = front_extractor(front, PREPROCESSING, 16)(pixels)
    assert given.astype(np.float32) == pytest.approx(by_hand(front, pixels), abs=1e-2, rel=1e-2)
