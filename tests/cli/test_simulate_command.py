"""The command line as a user meets it: a real process, its output and its exit status."""

import csv
import os
import subprocess
import sys

import numpy as np
import pytest

from poolsieve.cli import main


def poolsieve(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "poolsieve", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )


SMALL = ("--chunks", "30", "--tuning-chunks", "20", "-p", "0.02")


def test_version_and_help():
    assert poolsieve("--version").stdout.startswith("poolsieve 0.")
    for command in ("", "simulate", "design", "train"):
        done = poolsieve(*command.split(), "--help")
        assert done.returncode == 0 and "Usage: poolsieve" in done.stdout


def test_a_simulation_end_to_end(tmp_path):
    out, figure = tmp_path / "rows.csv", tmp_path / "figure.svg"
    done = poolsieve("simulate", *SMALL, "--out", out, "--figure", figure)
    assert done.returncode == 0, done.stderr
    assert "bp-soft" in done.stdout and "dorfman-8" in done.stdout
    with out.open() as stream:
        assert len(list(csv.DictReader(stream))) == 7
    assert "<svg" in figure.read_text()[:500]


def test_what_could_flag_nothing_is_left_out_or_refused(tmp_path):
    two_pools = ("simulate", *SMALL, "--design", "100,8,2")
    done = poolsieve(*two_pools, "--out", tmp_path / "rows.csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "rows.csv").open() as stream:
        assert not any("ncomp" in row["method"] for row in csv.DictReader(stream))
    refused = poolsieve(*two_pools, "-d", "ncomp:t=2")
    assert refused.returncode == 2
    assert "take t below 2" in refused.stderr


def test_designs_and_noise_from_files(tmp_path):
    assert poolsieve("design", "-n", 24, "-r", 4, "-c", 3, "--out", "d.txt", cwd=tmp_path).returncode == 0
    np.savetxt(tmp_path / "noise.csv", np.eye(5), delimiter=",")
    done = poolsieve(
        "simulate", *SMALL, "--design", "d.txt", "--noise", "noise.csv", "-d", "comp", "--correlation", 0.5,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--decoder", "nope"], "no decoder is named 'nope'"),
        (["--decoder", "classo:penalty=-1"], "penalty=-1"),
        (["--plugin", "missing.py:Mine"], "there is no file missing.py"),
        (["--design", "missing.npz"], "neither three numbers"),
        (["--design", "block.txt"], "2×2 block"),
        (["--design", "100,8,9"], "m·r = n·c fails"),
        (["--design", "100,8,5000"], "c(r − 1) ≤ n − 1 fails"),
        (["--design", "1000000000,8,4"], "cut the images into smaller chunks"),
        (["--decoder", "mip:penalty=inf"], "penalty=inf"),
        (["--decoder", "bp-hard:noise=3"], "CountNoise"),
        (["--noise", "empty.csv"], "the file is empty"),
        (["--out", "folder.csv"], "is a folder"),
        (["--out", "block.txt/rows.csv"], "is a file, not a folder"),
        (["--seed", "-1"], "--seed"),
        (["--noise", "0.3"], "between 0.5 and 1"),
        (["--noise", "ragged.csv"], "ragged.csv"),
        (["--noise", "missing.csv"], "not study"),
        (["-p", "2"], "prevalence 2"),
        (["--chunks", "0"], "chunks=0"),
        (["--out", "rows.doc"], "tables end in"),
        (["--figure", "figure.doc"], "figures end in"),
        (["--chunks", "many"], "integer"),
    ],
)
def test_what_cannot_run_says_why_and_leaves_with_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "block.txt").write_text("1 1 0 0\n1 1 0 0\n0 0 1 1\n0 0 1 1\n")
    (tmp_path / "ragged.csv").write_text("1,0\n0\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SystemExit) as left:  # in this process: starting one takes longer than all the rest
        main(["simulate", *arguments])
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert message in " ".join(said.replace("│", " ").split())
    assert "Traceback" not in said


def test_any_matrix_can_be_compared(tmp_path):
    (tmp_path / "block.txt").write_text("1 1 0 0\n1 1 0 0\n0 0 1 1\n0 0 1 1\n")
    done = poolsieve("simulate", *SMALL, "--design", "block.txt", "--any-matrix", "-d", "mip", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_numbers_are_whole_in_a_narrow_terminal():
    designs = ("--design", "100,8,4", "--design", "96,8,3")
    done = poolsieve("simulate", *SMALL, *designs, "-d", "ncomp:t=2", "--correlation", 0.5, COLUMNS="80")
    heading = next(line.split() for line in done.stdout.splitlines() if "sensitivity" in line)
    assert heading[-2:] == ["tests", "speed"]


def test_chunks_that_a_decoder_did_not_finish_are_reported():
    done = poolsieve("simulate", "--chunks", 20, "--tuning-chunks", 0, "-p", 0.2, "-d", "mip:node_limit=1")
    assert "not all chunks were decoded to the end" in " ".join(done.stdout.split())


def test_an_unwritable_output_is_an_error_and_not_a_crash(tmp_path):
    (tmp_path / "file").write_text("")
    done = poolsieve("simulate", *SMALL, "-d", "comp", "--out", tmp_path / "file" / "rows.csv")
    assert done.returncode == 2 and "error:" in done.stderr and "Traceback" not in done.stderr


def test_a_terminal_that_knows_only_ascii_shows_all_the_same(tmp_path):
    done = poolsieve(
        "simulate", *SMALL, "-d", "comp", "--out", "zähler.csv", cwd=tmp_path, PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0, done.stderr
    assert "rows: z\\xe4hler.csv" in done.stdout


def test_names_in_messages_do_not_reach_the_terminal_as_commands():
    done = poolsieve("simulate", "--design", "a\x1b[31m\n\u202eb.npz")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr and "\u202e" not in done.stderr
    assert "a\\x1b[31m\\n\\u202eb.npz" in done.stderr
