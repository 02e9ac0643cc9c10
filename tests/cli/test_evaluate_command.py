import csv

import pyarrow.parquet as pq
import pytest
from small_bundle import small_bundle, write_data

from poolsieve.cli.main import main


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    small_bundle(folder / "bundle")
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
