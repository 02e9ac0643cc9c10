import csv
import os
from shutil import copy

import pyarrow.parquet as pq
import pytest
from altered_bundles import copy_bundle
from small_bundle import write_data

from poolsieve.cli.main import main


@pytest.fixture(scope="module")
def place(tmp_path_factory, small):
    folder = tmp_path_factory.mktemp("evaluate")
    copy_bundle(small.path, folder / "bundle")
    write_data(folder / "images")
    return folder


@pytest.fixture
def run(place, monkeypatch, capsys):
    """Runs the command in the folder; gives its exit status, output and errors."""
    monkeypatch.chdir(place)

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main(["evaluate", *map(str, arguments)])
        said = capsys.readouterr()
        return left.value.code or 0, said.out, " ".join(said.err.split())

    return call


def test_a_report_is_written(place, run):
    mixture = ["--images", 300, "--tuning-images", 200, "-p", 0.1, "--timing-images", 0, "--any-task"]
    methods = ["-m", "dorfman", "-m", "cascade", "--threads", 1]
    status, out, err = run("bundle", "images/data.csv", "--report", "report", *mixture, *methods)
    assert status == 0, err
    assert "Dorfman" in out
    assert "report.html" in out
    report = place / "report"
    with (report / "results.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["method"] for row in rows] == ["individual", "dorfman", "cascade"]
    assert [row["method"] for row in pq.read_table(report / "results.parquet").to_pylist()] == [
        row["method"] for row in rows
    ]
    assert (report / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bundle", "images/data.csv", "--split", "holdout"], "there is no split 'holdout'"),
        (["bundle", "images/data.csv", "-m", "best"], "no method is named 'best'"),
        (["bundle", "clear.csv"], "has no flagged image (label 1)"),
        (["nothing", "images/data.csv"], "no bundle 'nothing'"),
        (["bundle", "images/data.csv", "--images", "300"], "draw at least 1000 images"),
    ],
)
def test_what_cannot_run_says_why(place, run, arguments, message):
    lines = (place / "images" / "data.csv").read_text().splitlines()
    clear = [lines[0], *(f"images/{line}" for line in lines[1:] if ",0," in line)]
    (place / "clear.csv").write_text("\n".join(clear) + "\n")
    status, _, err = run(*arguments, "--report", "other")
    assert status == 2
    assert message in err
    assert not (place / "other").exists()


SMALL = ("--images", 300, "-p", 0.1, "--timing-images", 0, "--any-task", "--threads", 1)


def test_no_images_for_training_are_needed(place, run):
    lines = (place / "images" / "data.csv").read_text().splitlines()
    (place / "images" / "kept.csv").write_text(
        "\n".join(line for line in lines if "train" not in line) + "\n"
    )
    status, _, err = run(
        "bundle", "images/kept.csv", "--report", "kept", *SMALL, "--tuning-images", 200, "-m", "dorfman"
    )
    assert status == 0, err


@pytest.fixture
def odd_folder(place, tmp_path):
    """Class folders with names that are no text, turn lines around and hold commands to a terminal."""
    for number, line in enumerate((place / "images" / "data.csv").read_text().splitlines()[1:]):
        name, label, _ = line.split(",")
        folder = tmp_path / "odd" / ("flagged" if label == "1" else "clear")
        folder.mkdir(parents=True, exist_ok=True)
        odd = (b"\xff%d.jpg", b"\x1b[2J\n%d.jpg", "\u202e%d.jpg".encode())[number // 3 % 3] % number
        copy(place / "images" / name, folder / os.fsdecode(odd))
    (tmp_path / "odd" / "clear" / os.fsdecode(b"\xff.jpg")).write_bytes(b"no image")
    return tmp_path / "odd"


def test_all_of_a_folder_is_tested_whatever_its_files_are_called(place, run, odd_folder, tmp_path):
    report = tmp_path / "report"
    status, out, err = run(
        "bundle", odd_folder, "--report", report, "--all-test", *SMALL, "-m", "classo", "-m", "cascade"
    )
    assert status == 0, err
    assert "test 24/48" in err
    text = (report / "report.html").read_text(encoding="utf-8")
    assert "nothing to tune on" in text
    assert "1 unreadable image(s) left out" in text
    assert "\\xff.jpg: not a JPEG" in text
    with (report / "errors.csv").open(newline="", encoding="utf-8") as stream:
        files = [row["file"] for row in csv.DictReader(stream)]
    assert [row["file"] for row in pq.read_table(report / "errors.parquet").to_pylist()] == files
    names = "".join(files)
    assert "\\xff" in names and "\x1b" in names and "\u202e" in names  # a table keeps what is text
    for shown in (out, err, text):
        assert "\x1b" not in shown and "\u202e" not in shown
    assert "<bdi>\\u202e" in text and "<bdi>\\x1b[2J\\n" in text and "<bdi>\\xff" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["images/data.csv", "--all-test"], "has splits of its own"),
        (["images/data.csv", "--all-test", "--split", "val"], "--all-test knows no splits"),
        (["images/data.csv", "--split", "train", "--tuning-split", "train"], "same split 'train' flatters"),
    ],
)
def test_splits_that_contradict_are_refused(place, run, arguments, message):
    status, _, err = run("bundle", *arguments, "--report", "other")
    assert status == 2
    assert message in err
