import json
import os
import shutil
import subprocess
import sys

import boto3
import numpy as np
import pytest
import typer
from PIL import Image, ImageDraw
from s3_server import CREDENTIALS, running_server
from typer.testing import CliRunner

from poolsieve.cli.shared_options import labelled_images
from poolsieve.cli.train import train
from poolsieve.images import locations

QUICK = ["--cut", "block12", "--pool-size", 2, "--views", 1, "--individual-epochs", 1, "--epochs", 1]
QUICK += ["--pools-per-epoch", 4, "--batch-pools", 2, "--test-pools", 4, "--validation-pools", 4]


@pytest.fixture
def command():
    app = typer.Typer()
    app.command()(train)

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)

    return call


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A few discs (to be flagged) and squares as a CSV file."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    lines = ["file,label,split"]
    for split in ("train", "val", "test"):
        for label in (0, 1):
            for i in range(6):
                image = Image.fromarray(rng.integers(0, 90, (64, 64, 3), dtype=np.uint8))
                pen = ImageDraw.Draw(image)
                (pen.ellipse if label else pen.rectangle)((10, 10, 50, 50), fill=(220, 60, 40))
                image.save(folder / f"{split}-{label}-{i}.png")
                lines.append(f"{split}-{label}-{i}.png,{label},{split}")
    (folder / "photos.csv").write_text("\n".join(lines) + "\n")
    return folder / "photos.csv"


def test_a_shipped_backbone_is_trained_from_the_command_line(command, photos, tmp_path):
    out = tmp_path / "run"
    arguments = [photos, "--out", out, "--cut", "block12", "--pool-size", 2, "--pool-size", 4, "--views", 1]
    arguments += ["--individual-epochs", 1, "--epochs", 1, "--pools-per-epoch", 8, "--test-pools", 10]
    arguments += ["--validation-pools", 10]
    result = command(*arguments, "--cache-dir", tmp_path / "cache")
    assert result.exit_code == 0, result.output
    assert f"poolsieve bundles export {out} MY-BUNDLE" in result.output
    assert f"poolsieve bundles record MY-BUNDLE {photos}" in result.output
    config = json.loads((out / "config.json").read_text())
    assert (config["backbone"], config["cut"], config["pool_sizes"]) == (
        "efficientnet-lite0",
        "block12",
        [2, 4],
    )
    assert config["settings"]["views"] == 1
    assert set(json.loads((out / "results.json").read_text())["counting"]) == {"2", "4"}
    assert len(list((tmp_path / "cache").iterdir())) == 3
    assert not (out / "cache").exists()


def test_a_run_is_trained_from_a_bucket_and_leads_to_a_bundle(command, photos, tmp_path, monkeypatch):
    with running_server() as address:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        locations._store.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket="labelled")
        for file in photos.parent.iterdir():
            client.put_object(Bucket="labelled", Key=f"in/{file.name}", Body=file.read_bytes())
        result = command("s3://labelled/in/photos.csv", "--out", tmp_path / "run", *QUICK)
        assert result.exit_code == 0, result.output
        results = json.loads((tmp_path / "run" / "results.json").read_text())
        assert results["images"]["flagged"] == 6
        assert "record MY-BUNDLE s3://labelled/in/photos.csv" in result.output
        data = labelled_images("s3://labelled/in/photos.csv")  # as `record` and `evaluate` take it
    locations._store.cache_clear()
    assert data.read_bytes() == photos.read_bytes()
    kept = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert kept
    assert not any(CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() in file.read_bytes() for file in kept)


def test_class_folders_are_named_by_options_and_so_in_the_next_command(command, photos, tmp_path):
    data = tmp_path / "weapons"
    for file in photos.parent.glob("*.png"):
        split, label, _ = file.stem.split("-")
        target = data / split / ("butter knife" if label == "1" else "ok")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    names = ["--flagged", "butter knife", "--clear", "ok"]
    result = command(data, "--out", tmp_path / "run", *names, *QUICK)
    assert result.exit_code == 0, result.output
    assert f"record MY-BUNDLE {data} --flagged 'butter knife' --clear ok" in result.output
    assert json.loads((tmp_path / "run" / "results.json").read_text())["images"]["flagged"] == 6
    wrong = command(data, "--out", tmp_path / "other", "--flagged", "knife", "--clear", "ok")
    assert isinstance(wrong.exception, ValueError)
    assert "has no folder 'knife'; its folders are butter knife, ok" in str(wrong.exception)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pool-size", 1], r"pool_sizes=\(1,\), but each must be .* at least 2 and at most 256"),
        (["--backbone", "efficientnet-lite9"], "efficientnet-lite9"),
        (["--cut", "block99"], "no cut point 'block99'"),
        (["--pool-size", 8], "6 bad images, but pools of 8"),
        (["--share", 1, "--share", 2], "2 shares were given for pools of 8; 9 are needed"),
        (["--tune-from", "block3", "--front", "whole"], "leave front out"),
        (["--epochs", 0], "at least one epoch"),
        (["--learning-rate", 0], "learning_rate=0.0, but it must be a number above 0"),
        (["--pools-per-epoch", 1], "pools_per_epoch=1, but it must be a whole number at least 2"),
        (["--pool-size", 300], "at most 256"),
        (["--reading", "density"], "--reading is for --task outlier"),
        (["--glance-epochs", 3], "--glance-epochs is for --glance"),
        (["--tune-from", "block99"], "no cut point 'block99'"),
        (["--backbone", "resnet18"], "--weights FILE"),
        (["--weights", "absent.pth"], "absent.pth: no such weight file.*--weights FILE"),
    ],
)
def test_mistakes_are_explained_before_any_work(command, photos, tmp_path, arguments, message):
    result = command(photos, "--out", tmp_path / "run", *arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, ValueError)
    with pytest.raises(ValueError, match=message):
        raise result.exception
    assert not (tmp_path / "run").exists()


def test_a_file_as_out_is_named_though_the_cache_would_lie_in_it(command, photos, tmp_path):
    (tmp_path / "run").write_text("precious")
    result = command(photos, "--out", tmp_path / "run")
    assert isinstance(result.exception, ValueError)
    assert "is a file; name a folder with --out" in str(result.exception)


def test_missing_data_is_an_os_error(command, tmp_path):
    result = command(tmp_path / "none.csv", "--out", tmp_path / "run")
    assert isinstance(result.exception, FileNotFoundError)


def test_without_torch_the_extra_is_named():
    """`import torch` is made to fail in a fresh interpreter; the help must not need it."""
    script = """
import sys
sys.modules["torch"] = None
import typer
from typer.testing import CliRunner
from poolsieve.cli.shared_options import labelled_images
from poolsieve.cli.train import train
from poolsieve.images import locations
app = typer.Typer()
app.command()(train)
shown = CliRunner().invoke(app, ["--help"])
assert shown.exit_code == 0 and "--pool-size" in shown.output, shown.output
failed = CliRunner().invoke(app, ["data", "--out", "run"])
assert isinstance(failed.exception, ImportError), failed.exception
assert "pip install 'poolsieve[train]'" in str(failed.exception), failed.exception
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


EXIT_CODES = """
import sys
from poolsieve.cli.main import main

table, whole, *arguments = sys.argv[1:]
for data, more in ((table, ["--strict"]), (table, []), (whole, [])):
    try:
        main(["train", data, *arguments, *more])
    except SystemExit as left:
        print(left.code)
"""


def test_exit_status_tells_what_became_of_the_run(photos, tmp_path):
    """2 with a bad image that is not allowed, 1 if it is left out, 0 without it."""
    folder = tmp_path / "photos"
    shutil.copytree(photos.parent, folder)
    (folder / "broken.png").write_bytes(b"\x89PNG broken")
    table = folder / "with-broken.csv"
    table.write_text(photos.read_text() + "broken.png,0,train\n")
    arguments = ["--out", tmp_path / "run", "--cut", "block12", "--pool-size", "2", "--views", "1"]
    arguments += ["--individual-epochs", "1", "--epochs", "1", "--pools-per-epoch", "4", "--batch-pools", "2"]
    arguments += ["--batch-images", "4", "--validation-pools", "4", "--test-pools", "4"]
    result = subprocess.run(
        [sys.executable, "-c", EXIT_CODES, table, folder / "photos.csv", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.stdout.split() == ["2", "1", "0"], result.stderr
    assert "error: 1 unreadable image(s)" in result.stderr
    assert "broken.png" in result.stderr
    assert "too few validation images" in result.stderr
    assert "Traceback" not in result.stderr
    # The third run found the second's work done: an image that is left out is no part of the data.
    assert result.stderr.count("individual: epoch 1/1") == 1
