import errno
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_shapes import draw_task, small_backbone
from drawn_weights import drawn

from poolsieve.images import ViewSettings, load_dataset
from poolsieve.training import TrainingSettings, features
from poolsieve.training.extractors import front_extractor, fuse_batch_norms
from poolsieve.training.features import (
    ViewSet,
    build_cache,
    hash_weights,
)
from poolsieve.training.run import cached_features

VIEWS = ViewSet(32, random_views=2, seed=0)


@pytest.fixture
def few(monkeypatch):
    """Small blocks, so that a small task has several."""
    monkeypatch.setattr(features, "BLOCK_IMAGES", 16)


class Front:
    """The front of the small network, which counts the inputs that it sees and may break down."""

    def __init__(self, fail_after=None):
        self.backbone = small_backbone().eval()
        preprocessing = self.backbone.preprocessing
        self.extract = front_extractor(self.backbone.front, preprocessing.mean, preprocessing.scale, 32)
        self.key = {"weights": hash_weights(self.backbone.front), "cut": self.backbone.cut}
        self.seen = 0
        self.fail_after = fail_after

    def __call__(self, pixels):
        self.seen += len(pixels)
        if self.fail_after is not None and self.seen > self.fail_after:
            raise KeyboardInterrupt
        return self.extract(pixels)


@pytest.fixture
def build(task, tmp_path, quiet, few):
    def call(front, views=VIEWS, split="train", key=None, dataset=None, cache_dir=None):
        return build_cache(
            dataset or load_dataset(task),
            split,
            views,
            front,
            front.backbone.feature_shape,
            key or front.key,
            cache_dir or tmp_path / "cache",
            quiet,
        )

    return call


def test_cached_features_equal_the_front(task, build):
    front = Front()
    cache = build(front)
    dataset = load_dataset(task)
    assert cache.array.shape == (96, 3, 8, 8, 16)
    assert cache.array.dtype == np.float16
    for place in (0, 17, 95):
        row = dataset.of_split("train")[place]
        pixels = VIEWS.render(dataset.files[row], dataset.digests[row])
        with torch.no_grad():
            inputs = front.backbone.preprocessing(torch.from_numpy(pixels).permute(0, 3, 1, 2).float())
            expected = front.backbone.front(inputs).permute(0, 2, 3, 1).numpy()
        assert np.abs(cache.array[place] - expected).max() < 0.01
    plain, *others = VIEWS.render(dataset.files[0], dataset.digests[0])
    assert all((view != plain).any() for view in others)


def test_features_can_go_on_from_an_earlier_cut_point(task, quiet, tmp_path, few):
    settings = TrainingSettings(front="tuned", tune_from="first", front_epochs=1, views=3)
    backbone, dataset = small_backbone().eval(), load_dataset(task)
    frozen = replace(settings, front="frozen", tune_from=None, front_epochs=0)
    whole = cached_features(backbone, "second", dataset, "train", frozen, tmp_path / "whole", quiet)
    tail = cached_features(backbone, "second", dataset, "train", settings, tmp_path / "tail", quiet)
    assert len(list((tmp_path / "tail").iterdir())) == 2  # features after "first", and after "second"
    assert tail.shape == whole.shape
    assert np.abs(tail.astype(float) - whole).max() < 0.02
    assert np.abs(tail).max() > 0.5


def test_a_complete_cache_is_reused(build):
    build(Front())
    again = Front()
    cache = build(again)
    assert again.seen == 0
    assert cache.views == 3


@pytest.mark.parametrize(
    "change",
    [
        {"views": replace(VIEWS, random_views=1)},
        {"views": replace(VIEWS, seed=1)},
        {"views": replace(VIEWS, resize_mode="stretch")},
        {"views": replace(VIEWS, settings=ViewSettings(rotation=10))},
        {"key": {"weights": "others"}},
        {"split": "val"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_makes_another_cache(build, change):
    build(Front())
    again = Front()
    build(again, **change)
    assert again.seen > 0


def test_changed_images_make_another_cache(build, tmp_path):
    build(Front())
    other = load_dataset(draw_task(tmp_path / "other", seed=5))
    again = Front()
    build(again, dataset=other)
    assert again.seen == 96 * 3


def test_an_interrupted_cache_goes_on_at_its_last_block(build, tmp_path):
    whole = np.array(build(Front(), cache_dir=tmp_path / "whole").array)
    with pytest.raises(KeyboardInterrupt):
        build(Front(fail_after=40 * 3))
    (folder,) = (tmp_path / "cache").iterdir()
    assert not (folder / "complete.json").exists()
    again = Front()
    cache = build(again)
    assert again.seen == (96 - 32) * 3  # two blocks of 16 images were done
    assert (cache.array == whole).all()


@pytest.mark.parametrize(
    "damage", ["short", "no mark", "beyond the mark", "other header", "nonsense progress"]
)
def test_half_written_caches_are_not_trusted(build, tmp_path, damage):
    whole = np.array(build(Front()).array)
    (folder,) = (tmp_path / "cache").iterdir()
    array = folder / "features.npy"
    if damage == "short":
        with array.open("r+b") as stream:
            stream.truncate(array.stat().st_size - 1000)
    else:
        (folder / "complete.json").unlink()
    if damage == "other header":
        with array.open("r+b") as stream:
            stream.write(b"garbage")
    if damage == "beyond the mark":  # as after a power cut: the file is long enough, but not all was written
        (folder / "progress.json").write_text('{"blocks": 2}')
        with array.open("r+b") as stream:
            stream.seek(array.stat().st_size * 2 // 3)
            stream.write(bytes(1000))
    if damage == "nonsense progress":
        (folder / "progress.json").write_text("{")
    again = Front()
    cache = build(again)
    images = {"short": 16, "no mark": 0, "beyond the mark": 64, "other header": 96, "nonsense progress": 96}
    assert again.seen == images[damage] * 3
    assert (cache.array == whole).all()
    assert json.loads((folder / "complete.json").read_text())["bytes"] == array.stat().st_size


def test_too_small_a_disk_is_noticed_before_starting(build, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(features.shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    front = Front()
    with pytest.raises(OSError, match=r"need 0\.59 MB .* only 0\.10 MB are free.*--cache-dir"):
        build(front)
    assert front.seen == 0


def test_a_disk_that_fills_up_says_so_and_keeps_what_it_has(build, tmp_path):
    """On a real file system of 1 MB, which another program fills after the check."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        front = Front()
        extract = front.extract

        def greedy(pixels):
            if front.seen > 30 * 3:
                fill = disk / "fill"
                if not fill.exists():
                    _fill(fill)
            return extract(pixels)

        front.extract = greedy
        with pytest.raises(OSError, match=r"disk is full: the features of train need 0\.59 MB"):
            build(front, cache_dir=disk)
        (folder,) = (entry for entry in disk.iterdir() if entry.is_dir())
        assert not (folder / "complete.json").exists()
        (disk / "fill").unlink()
        again = Front()
        cache = build(again, cache_dir=disk)
        assert 0 < again.seen < 96 * 3
        whole = build(Front(), cache_dir=tmp_path / "whole")
        assert (cache.array == whole.array).all()
        del cache
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def _fill(file: Path) -> None:
    try:
        with file.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
    except OSError as error:
        assert error.errno == errno.ENOSPC


def test_fusing_batch_norms_changes_no_output():
    backbone = small_backbone()
    for module in backbone.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.copy_(drawn(module.num_features, low=-1))
            module.running_var.copy_(drawn(module.num_features, low=0.5, seed=1))
    front = backbone.front.eval()
    fused = fuse_batch_norms(front)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in fused.modules())
    images = drawn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(front(images), fused(images), atol=1e-5)


def test_modules_used_out_of_order_are_left_unfused():
    class Crossed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Conv2d(3, 3, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(3)
            self.norm.running_var.copy_(2 + drawn(3, low=0))

        def forward(self, values):
            return self.first(self.norm(values))

    crossed = Crossed().eval()
    images = drawn(1, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(crossed(images), fuse_batch_norms(crossed)(images))
