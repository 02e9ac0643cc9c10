"""Folders of runs and caches: who may write to them, and which run they hold."""

import csv
import io
import json
import subprocess
from dataclasses import replace

import pytest
import torch
from drawn_shapes import small_backbone
from rich.console import Console

from poolsieve import progress
from poolsieve.folders import lock_folder
from poolsieve.images import load_dataset
from poolsieve.training import TrainingSettings
from poolsieve.training.run import train
from poolsieve.training.training_folder import TrainingFolder

TINY = TrainingSettings(
    pool_sizes=(2,),
    views=1,
    individual_epochs=1,
    epochs=1,
    pools_per_epoch=8,
    batch_pools=8,
    validation_pools=10,
    test_pools=10,
)
DESCRIPTION = {
    "settings": TINY.to_json(),
    "data": dict.fromkeys(("train", "val", "test"), "a"),
    "labels": dict.fromkeys(("train", "val", "test"), "b"),
    "network": {"weights": "c", "input_size": 32},
}


@pytest.fixture
def table(task, tmp_path):
    """The drawn task as a CSV file."""
    dataset = load_dataset(task)
    file = tmp_path / "table.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", "label", "split"])
        writer.writerows(zip(dataset.files, dataset.labels, dataset.splits, strict=True))
    return file


def test_changed_labels_or_weights_are_refused(table, tmp_path, quiet):
    out, cache = tmp_path / "out", tmp_path / "cache"

    def again(settings=TINY, backbone=None):
        return train(
            table, out, settings, cache_dir=cache, reporter=quiet, backbone=backbone or small_backbone()
        )

    results = again()
    written = json.loads((out / "settings.json").read_text())

    other = small_backbone()
    with torch.no_grad():
        other.stages["fourth"][0].weight.add_(0.01)  # behind the cut, so the caches are the same
    with pytest.raises(ValueError, match=r"pretrained weights of the network: changed.*another --out"):
        again(backbone=other)

    text = table.read_text()
    line = next(line for line in text.splitlines() if line.endswith("1,train"))
    table.write_text(text.replace(line, line.replace(",1,train", ",0,train")))
    with pytest.raises(ValueError, match=r"\(labels of split train: changed\)"):
        again()
    table.write_text(text)

    assert again() == results
    for name in ("labels", "network"):
        (out / "settings.json").write_text(json.dumps({**written, name: None}))
        with pytest.raises(ValueError, match=rf"settings\.json: damaged \({name} must be an object"):
            again()


def test_a_damaged_plan_is_named(tmp_path):
    (tmp_path / "settings.json").write_text("{")
    with TrainingFolder(tmp_path) as folder, pytest.raises(ValueError, match=r"settings\.json: damaged"):
        folder.claim(DESCRIPTION)


def test_what_a_killed_write_leaves_does_not_block_the_folder(tmp_path):
    out = tmp_path / "out"
    leftovers = [out / ".settings.json.abc.part", out / "phases" / "individual" / ".last.safetensors.x.part"]
    leftovers[0].parent.mkdir()
    leftovers[0].write_bytes(b"{")
    with TrainingFolder(out) as folder:
        folder.claim(DESCRIPTION)
    assert not leftovers[0].exists()
    leftovers[1].parent.mkdir(parents=True)
    leftovers[1].write_bytes(b"half")
    with TrainingFolder(out) as folder:
        folder.claim(DESCRIPTION)
    assert not leftovers[1].exists()


def test_two_runs_in_one_folder_are_refused(task, tmp_path, quiet):
    out = tmp_path / "out"
    with TrainingFolder(out) as folder:
        folder.claim(DESCRIPTION)
        with pytest.raises(ValueError, match="another run is at work in"):
            train(task, out, TINY, cache_dir=tmp_path / "cache", reporter=quiet, backbone=small_backbone())
    with lock_folder(out):  # and it is free again
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"front": "tuned", "tune_from": "nowhere", "front_epochs": 1}, "no cut point 'nowhere'"),
        ({"front": "tuned", "tune_from": "second", "front_epochs": 1}, "no stage lies after 'second'"),
    ],
)
def test_impossible_settings_leave_no_folder(task, tmp_path, quiet, change, message):
    settings, out = replace(TINY, **change), tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        train(task, out, settings, cache_dir=tmp_path / "cache", reporter=quiet, backbone=small_backbone())
    assert not out.exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("option", ["--out", "--cache-dir"])
def test_a_file_in_the_place_of_a_folder_is_named_before_any_image_is_read(tmp_path, quiet, option):
    file = tmp_path / "file"
    file.write_text("precious")
    places = {"--out": tmp_path / "out", "--cache-dir": tmp_path / "cache", option: file / "below"}
    absent = tmp_path / "no such data"
    with pytest.raises(ValueError, match=rf"{option} .*file is a file; name a folder with {option}"):
        train(absent, places["--out"], TINY, cache_dir=places["--cache-dir"], reporter=quiet)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file"]


def test_a_full_disk_names_the_folder_and_what_to_do(task, tmp_path, quiet):
    """On a real file system that is too small for the checkpoints."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    out, cache = disk / "out", tmp_path / "cache"
    try:
        with pytest.raises(OSError, match=r"disk is full .*out could not be saved. Make room there and run"):
            train(task, out, TINY, cache_dir=cache, reporter=quiet, backbone=small_backbone())
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        train(task, out, TINY, cache_dir=cache, reporter=quiet, backbone=small_backbone())
        assert not list(out.rglob("*.part"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_checking_images_shows_how_far_it_is(task, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_INTERVAL", 0.0)
    shown = io.StringIO()
    reporter = progress.Reporter(Console(file=shown))
    settings, out = replace(TINY, pool_sizes=(200,)), tmp_path / "out"  # refused once the images are counted
    with pytest.raises(ValueError, match="pools of 200"):
        train(task, out, settings, cache_dir=tmp_path / "cache", reporter=reporter, backbone=small_backbone())
    assert "checking 192 images" in shown.getvalue()
    assert "checking images: 96/192, " in shown.getvalue()
    assert not out.exists()
