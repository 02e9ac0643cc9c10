"""Options of the command: given once, from a file, for scripts, for shells, and for one image."""

import csv
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from planted import write_images
from planted_command import load_planted, records
from typer.testing import CliRunner

from poolsieve.cli.main import app
from poolsieve.cli.moderation_progress import ModerationProgress
from poolsieve.moderation import Moderator


@pytest.mark.parametrize("name", ["bundle", "out", "seed", "scheme", "pool-size"])
def test_an_option_given_twice_is_refused(run, photos, tmp_path, name):
    value = {"bundle": "planted", "out": tmp_path / "v.csv", "seed": 1, "scheme": "auto", "pool-size": 4}[
        name
    ]
    once = [] if name == "bundle" else [f"--{name}", value]  # the fixture gives the bundle
    out = [] if name == "out" else ["--out", tmp_path / "v.csv"]
    result = run(photos, *out, *once, f"--{name}={value}")
    assert result.exit_code == 2
    assert "given 2 times" in " ".join(result.stderr.replace("│", "").split())
    assert f"--{name}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_other_commands_refuse_an_option_given_twice_but_not_a_list():
    result = CliRunner().invoke(app, ["design", "-n", "24", "-n", "30", "-r", "4", "-c", "3"])
    assert result.exit_code == 2
    assert "given 2 times" in " ".join(result.stderr.replace("│", "").split())
    several = ["simulate", "--chunks", "5", "--tuning-chunks", "0", "-p", ".01", "-d", "comp", "-d", "dd"]
    assert CliRunner().invoke(app, several).exit_code == 0


def test_quiet_prints_nothing_but_errors(run, photos, tmp_path):
    result = run(photos, "--out", tmp_path / "v.csv", "--copy-flagged", tmp_path / "copies", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    (photos / "0050.png").write_bytes(b"")
    result = run(photos, "--out", tmp_path / "v.csv", "--quiet", "--force")
    assert (result.exit_code, result.output) == (1, "")
    assert "exists already" in str(run(photos, "--out", tmp_path / "v.csv", "--quiet").exception)


def test_the_summary_as_json(run, photos, tmp_path):
    (photos / "0050.png").write_bytes(b"")
    (photos / "notes.txt").write_text("text")
    out, sheet = tmp_path / "v.csv", tmp_path / "sheet.png"
    options = (photos, "--out", out, "--seed", 5, "--contact-sheet", sheet, "--json", "--scheme", "dorfman")
    result = run(*options, "--explain", "0004.png")
    assert result.exit_code == 1
    summary = json.loads(result.stdout)
    expected = {"images": 130, "flagged": 3, "clear": 126, "errors": 1, "not_images": 1, "seed": 5}
    expected |= {"out": str(out), "contact_sheet": str(sheet), "report": None, "copies": None}
    expected |= {"finished_before": False, "own_outputs_passed_over": 0, "unfinished_chunks": 0}
    assert {name: summary[name] for name in expected} == expected
    assert summary["bundle"] == {"name": "planted", "hash": "ab" * 32}
    assert 0 < summary["cost_share"] < 1
    assert summary["estimated_prevalence"].keys() == {"value", "low", "high"}
    assert "0004.png: flagged" in result.stderr
    result = run(*options, "--resume")
    assert json.loads(result.stdout) == {"out": str(out), "finished_before": True}


def test_the_fields_of_the_json_summary_are_documented(run, photos, tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "moderating.md").read_text()
    for name in json.loads(run(photos, "--out", tmp_path / "v.csv", "--json").stdout):
        assert f"`{name}`" in text


def test_options_come_from_a_file_and_the_command_line_wins(run, photos, tmp_path):
    file = tmp_path / "poolsieve.toml"
    file.write_text(
        f'[moderate]\nsource = ["{photos}"]\nout = "{tmp_path}/v.jsonl"\nscheme = "dorfman"\npool-size = 4\n'
        f'contact-sheet = "{tmp_path}/sheet.png"\nrecompute = true\nprevalence = 0.05\nseed = 8\n'
    )
    result = run("--config", file, "--seed", 9)
    assert result.exit_code == 0, result.output
    rows = records(tmp_path / "v.jsonl")
    assert len(rows) == 130
    assert {row["seed"] for row in rows} == {9}
    scheme = rows[0]["scheme"]
    assert scheme.startswith("dorfman(")
    for text in ("pool_size=4", "prevalence=0.05", "recompute=True"):
        assert text in scheme
    assert (tmp_path / "sheet.png").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[moderate]\npoolsize = 4", "moderate has no option 'poolsize'; it has batch-size, bundle"),
        ("[moderate]\nconfig = 'x.toml'", "has no option 'config'"),
        ("[moderate]\nforce = true", "has no option 'force'"),
        ("[train]\nepochs = 4", "'train' is not known; options stand in a table [moderate]"),
        ("seed = 4", "'seed' is not known"),
        ("[moderate]\nbundle = ['a', 'b']", "bundle is ['a', 'b'], but must be one text or number"),
        ("[moderate]\nquiet = 1", "quiet is 1, but must be true or false"),
        ("[moderate]\nseed = true", "seed is True, but must be one text or number"),
        ("[moderate\n", "not a TOML file"),
    ],
)
def test_a_file_with_unknown_options_is_refused(run, photos, tmp_path, text, words):
    file = tmp_path / "poolsieve.toml"
    file.write_text(text)
    result = run(photos, "--out", tmp_path / "v.csv", "--config", file)
    assert isinstance(result.exception, ValueError)
    assert words in str(result.exception)
    assert not (tmp_path / "v.csv").exists()


def test_a_value_of_the_wrong_kind_in_a_file_is_refused(run, photos, tmp_path):
    (tmp_path / "p.toml").write_text('[moderate]\nchunk = "many"\n')
    result = run(photos, "--out", tmp_path / "v.csv", "--config", tmp_path / "p.toml")
    assert result.exit_code == 2
    assert "--chunk" in result.stderr


def completed(shell, words):
    environment = {
        **os.environ,
        "_POOLSIEVE_COMPLETE": f"complete_{shell}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    if shell == "bash":
        environment |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": words}
    call = [sys.executable, "-c", "from poolsieve.cli import main; main()"]
    return subprocess.run(call, env=environment, capture_output=True, text=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_commands_options_and_choices(shell):
    assert "moderate" in completed(shell, "poolsieve mod")
    assert "--copy-flagged" in completed(shell, "poolsieve moderate --copy")
    assert "adaptive" in completed(shell, "poolsieve moderate --scheme ada")


@pytest.fixture
def explained(monkeypatch):
    monkeypatch.setattr(Moderator, "load", lambda *_, **__: pytest.fail("a bundle was loaded"))
    return lambda *words: CliRunner().invoke(app, ["moderate", "--explain", *map(str, words)])


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_finished_table_explains_an_image_as_the_run_did(
    run, photos, tmp_path, monkeypatch, explained, ending
):
    (photos / "0050.png").write_bytes(b"")
    monkeypatch.setattr(Moderator, "load", load_planted)
    out = tmp_path / f"v.{ending}"
    for name in ("0077.png", "0051.png", "0050.png"):
        told = run(photos, "--out", out, "--force", "--explain", name, "--seed", 2).output.partition("┌")[0]
        assert name in told
        assert explained(name, out).output == told
    result = explained("nothing.png", out)
    assert f"no image in {out} is named nothing.png; give its path, or its whole file name" in str(
        result.exception
    )


def test_what_is_no_table_of_verdicts_is_said(photos, tmp_path, explained):
    assert "takes one finished table" in str(explained("a.png", photos).exception)
    (tmp_path / "list.csv").write_text("file\na.png\n")
    assert "so it is no table of verdicts" in str(explained("a.png", tmp_path / "list.csv").exception)
    (tmp_path / "list.jsonl").write_text("[1]\n")
    assert "no table of verdicts, or a damaged one" in str(explained("a", tmp_path / "list.jsonl").exception)
    result = CliRunner().invoke(app, ["moderate", str(photos), "--explain", "a", "--out", "v.csv"])
    assert "--bundle is missing" in str(result.exception)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_any_name_is_explained_and_none_steers_the_terminal(run, tmp_path, monkeypatch, explained, ending):
    monkeypatch.setattr(Moderator, "load", load_planted)
    folder = tmp_path / "photos"
    (image,) = write_images(folder, [True])
    names = [
        b"undecodable \xff.png",
        b"red \x1b[31m.png",
        "turned \u202egnp.exe.png".encode(),
        b"two\nlines.png",
    ]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(image.read_bytes())
    out = tmp_path / f"v.{ending}"
    assert run(folder, "--out", out).exit_code == 0
    shown = [r"undecodable \xff.png", r"red \x1b[31m.png", r"turned \u202egnp.exe.png", r"two\nlines.png"]
    for name, text in zip(names, shown, strict=True):
        for form in (text, os.fsdecode(name)):
            result = explained(form, out)
            assert result.exit_code == 0, result.exception
            first = result.output.splitlines()[0]
            assert f"{text}: flagged, score" in first
            assert not set("\x1b\u202e\udcff") & set(result.output)


def test_cells_that_a_spreadsheet_would_compute_are_quoted_if_asked(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (image,) = write_images(tmp_path / "photos", [True])
    names = ["=cmd|calc!A0.png", "+1.png", "-1.png", "@SUM.png", "plain.png"]
    for name in names:
        (tmp_path / name).write_bytes(image.read_bytes())
    (tmp_path / "list.csv").write_text("file\n" + "".join(f'"{name}"\n' for name in names))
    for safe in ([], ["--spreadsheet-safe"]):
        assert run("list.csv", "--out", "v.csv", "--force", *safe).exit_code == 0
        cells = [row["path"] for row in records(tmp_path / "v.csv")]
        assert cells == [f"'{name}" if safe and name != "plain.png" else name for name in names]
    result = run("list.csv", "--out", "v.jsonl", "--spreadsheet-safe")
    assert "--spreadsheet-safe is for .csv" in str(result.exception)


def test_half_a_letter_in_a_list_does_not_end_the_table(run, photos, tmp_path):
    lines = [{"file": "\ud800.png"}, {"file": str(photos / "0004.png")}, {"file": "\udcff\udfff.png"}]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for ending in ("csv", "jsonl", "parquet"):
        result = run(tmp_path / "list.jsonl", "--out", tmp_path / f"v.{ending}")
        assert result.exit_code == 1, result.exception
        assert len((tmp_path / f"v.{ending}").read_bytes()) > 100
    with (tmp_path / "v.csv").open(newline="") as stream:
        assert [row["status"] for row in csv.DictReader(stream)] == ["error", "flagged", "error"]


class Totals:
    """What progress is told."""

    images = flagged = errors = not_images = 0
    images_per_second = 10.0

    def plan_changes(self):
        return []


def test_progress_shows_how_many_are_left_once_they_are_counted():
    from rich.console import Console

    counted, totals = threading.Event(), Totals()
    totals.images = 50

    def count():
        assert threading.current_thread() is not threading.main_thread()
        counted.set()
        return 200

    progress = ModerationProgress(Console(quiet=True), totals, count)
    assert "left" not in progress._line()
    with progress.shown():
        assert counted.wait(60)
        for thread in threading.enumerate():
            if thread.name == "counting":
                thread.join()
        assert "left" not in progress._line()  # nothing was judged in this run, so there is no speed yet
        totals.images, totals.not_images = 99, 1
        progress._begin -= 50  # one a second
        assert "100 of 200 files: 99 images" in progress._line()
        assert progress._line().endswith(" left")
        seconds = progress._line().rpartition(", ")[2]
        assert seconds in ("100 s left", "2 min left")
