"""Runs that are stopped, fail or meet each other: nothing is lost, and the words say how to go on."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planted import PlantedEngine
from planted_command import command, records

from poolsieve.moderation.verdict_files import VerdictLog

OPTIONS = ("--scheme", "individual", "--chunk", 10)


def wait_for_chunk(process, out, number=1):
    log = VerdictLog.path_for(out)
    deadline = time.monotonic() + 300
    while not (log.exists() and f'chunk_done":{number},'.encode() in log.read_bytes()):
        assert process.poll() is None, process.stdout.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(process):
    text, _ = process.communicate(timeout=300)
    return process.returncode, text.decode()


def test_two_runs_on_one_output_do_not_mix(photos, tmp_path):
    out = tmp_path / "v.jsonl"
    first = command(0.2, photos, "--out", out, *OPTIONS)
    wait_for_chunk(first, out)
    first.send_signal(signal.SIGSTOP)  # it lives, and takes its time
    for more in (("--resume",), (), ("--force",)):
        status, text = ended(command(0, photos, "--out", out, *OPTIONS, *more))
        assert status == 2, text
        assert "another run is writing" in text
    first.send_signal(signal.SIGCONT)
    assert ended(first)[0] == 0
    assert [row["position"] for row in records(out)] == list(range(130))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "v.jsonl"]


def test_of_two_that_resume_at_once_one_does_the_work(photos, tmp_path):
    out = tmp_path / "v.jsonl"
    killed = command(0.2, photos, "--out", out, *OPTIONS)
    wait_for_chunk(killed, out)
    killed.kill()
    ended(killed)
    both = [command(0.1, photos, "--out", out, *OPTIONS, "--resume") for _ in range(2)]
    results = [ended(process) for process in both]
    # The slower one finds it locked, or finished.
    assert sorted(status for status, _ in results) in ([0, 2], [0, 0])
    assert sum("another run is writing" in text or "finished already" in text for _, text in results) == 1
    assert [row["position"] for row in records(out)] == list(range(130))


@pytest.mark.parametrize("line", [5, 130])
def test_a_log_that_something_else_wrote_to_is_not_put_in_place(run, photos, tmp_path, monkeypatch, line):
    """A verdict is lost from its midst, or the last one."""
    append = VerdictLog.append

    def losing(self, *arguments):
        append(self, *arguments)
        lines = self.path.read_bytes().splitlines(keepends=True)
        self.path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))

    monkeypatch.setattr(VerdictLog, "append", losing)
    result = run(photos, "--out", tmp_path / "v.csv", "--chunk", 200, "--scheme", "individual")
    assert "does not hold the 130 verdicts of this run in their order" in str(result.exception)
    assert "--resume" not in "".join(getattr(result.exception, "__notes__", ()))
    assert not (tmp_path / "v.csv").exists()


def test_ctrl_c_says_how_to_go_on_and_that_works(photos, tmp_path):
    out = tmp_path / "my verdicts.jsonl"
    process = command(0.2, photos, "--out", out, *OPTIONS, "--force", "--seed", 3)
    wait_for_chunk(process, out)
    process.send_signal(signal.SIGINT)
    status, text = ended(process)
    assert status == 130, text
    assert "Traceback" not in text
    (line,) = (line for line in text.splitlines() if "go on with: " in line)
    assert f"verdicts are kept in {out}.partial" in line
    words = shlex.split(line.partition("go on with: ")[2])
    assert words[:2] == ["poolsieve", "moderate"]
    assert words[-1] == "--resume"
    assert "--force" not in words
    assert words[2:4] == ["--bundle", "planted"]
    status, text = ended(command(0, *words[4:]))
    assert status == 0, text
    assert len(records(out)) == 130


def test_ctrl_c_before_the_first_verdict_leaves_nothing(photos, tmp_path):
    out = tmp_path / "v.jsonl"
    process = command(60, photos, "--out", out, *OPTIONS)
    deadline = time.monotonic() + 300
    while not VerdictLog.path_for(out).exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    status, text = ended(process)
    assert status == 130, text
    assert "nothing had been judged yet" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


def limited(bytes_):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_full_disk_keeps_what_was_judged(run, photos, tmp_path, ending):
    """Simulated by a limit on the size of files: the log reaches it in the midst of the run."""
    out = tmp_path / f"v.{ending}"
    process = command(0, photos, "--out", out, *OPTIONS, "--seed", 1, preexec_fn=limited(25_000))
    status, text = ended(process)
    assert status == 2, text
    assert "Traceback" not in text
    assert "error: [Errno 27] File too large" in text
    assert "go on with: poolsieve moderate" in text
    assert not out.exists()
    assert not list(tmp_path.glob(".*.part"))
    assert run(photos, "--out", out, *OPTIONS, "--resume").exit_code == 0
    assert run(photos, "--out", tmp_path / f"w.{ending}", *OPTIONS, "--seed", 1).exit_code == 0
    assert out.read_bytes() == (tmp_path / f"w.{ending}").read_bytes()


FAILING = """
import sys
import planted, planted_command
from poolsieve.cli import main
from poolsieve.moderation import Moderator
calls = []
real = planted.PlantedEngine.front
def failing(self, images):
    calls.append(1)
    if len(calls) > 2:
        raise {error}
    return real(self, images)
planted.PlantedEngine.front = failing
Moderator.load = planted_command.load_planted
main(["moderate", "--bundle", "planted", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("AssertionError()", "unexpected AssertionError: no more is known"),
        ("RecursionError('too deep')", "unexpected RecursionError: too deep"),
        ("EOFError('gone')", "unexpected RuntimeError: unexpected end of data: gone"),
        ("KeyError('x')", "unexpected KeyError: 'x'"),
        ("MemoryError()", "error: out of memory"),
        ("ValueError('a bundle that\\x1b[31m lies')", "error: a bundle that\\x1b[31m lies"),
    ],
)
def test_nothing_ends_in_a_traceback(photos, tmp_path, error, words):
    arguments = list(map(str, (photos, "--out", tmp_path / "v.csv", *OPTIONS)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", FAILING.format(error=error), *arguments]
    done = subprocess.run(call, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert f"20 verdicts are kept in {tmp_path / 'v.csv'}.partial; go on with: poolsieve" in done.stderr
    if error.startswith("Assertion"):
        environment["POOLSIEVE_TRACEBACK"] = "1"
        done = subprocess.run([*call, "--force"], env=environment, capture_output=True, text=True)
        assert done.returncode == 2
        assert "Traceback" in done.stderr


@pytest.fixture
def interrupted(run, photos, tmp_path, monkeypatch):
    """The first 30 images are judged."""
    out = tmp_path / "v.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
        assert run(photos, "--out", out, *OPTIONS).exception is not None
    log = VerdictLog.path_for(out)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[: 1 + 3 * 11]))
    return (photos, "--out", out, *OPTIONS, "--resume")


def swap(file, other):
    """Other content, same size and times."""
    before, data = file.stat(), other.read_bytes()
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: swap(folder / "0007.png", folder / "0004.png"), "0007.png was replaced"),
        (lambda folder: (folder / "0004.png").unlink(), "0004.png was removed"),
        (lambda folder: (folder / "0029.png").unlink(), "0029.png was removed"),
        (lambda folder: (folder / "0004a.png").write_bytes(b""), "0004a.png was added"),
        (lambda folder: (folder / "0000.aaa").write_bytes(b""), "0000.aaa was added"),
    ],
)
def test_what_changed_among_the_judged_images_is_noticed(run, photos, interrupted, change, words):
    change(photos)
    result = run(*interrupted)
    assert "the source has changed since the run began" in str(result.exception)
    assert words in str(result.exception)


def test_what_changed_among_images_not_yet_judged_is_judged_as_it_is(run, photos, tmp_path, interrupted):
    (photos / "0040.png").unlink()
    (photos / "0050a.png").write_bytes((photos / "0004.png").read_bytes())
    assert run(*interrupted).exit_code == 0
    names = {Path(row["path"]).name: row["status"] for row in records(tmp_path / "v.jsonl")}
    assert names["0050a.png"] == "flagged"
    assert "0040.png" not in names


def test_members_of_an_archive_that_changed_are_noticed(run, photos, tmp_path, monkeypatch):
    import zipfile

    def pack(swapped):
        with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
            for k in range(30):
                archive.write(photos / ("0004.png" if k == swapped else f"{k:04d}.png"), f"{k}.png")

    pack(None)
    options = (tmp_path / "photos.zip", "--out", tmp_path / "v.csv", *OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
        assert run(*options).exception is not None
    pack(7)
    assert "7.png was replaced" in str(run(*options, "--resume").exception)
    pack(None)
    assert run(*options, "--resume").exit_code == 0


@pytest.mark.parametrize("kept", [0, 5, 200])
def test_a_torn_header_of_the_log_says_so(run, photos, tmp_path, kept):
    log = VerdictLog.begin(tmp_path / "v.csv", {"seed": 1, "source": ["x" * 400]})
    log.path.write_bytes(log.path.read_bytes()[:kept])
    result = run(photos, "--out", tmp_path / "v.csv", "--resume")
    assert "which says what run it is of, is cut off" in str(result.exception)
    assert "--force" in str(result.exception)
    log.path.write_bytes(json.dumps({"format": 1}).encode() + b"\n")
    assert "has format 1" in str(run(photos, "--out", tmp_path / "v.csv", "--resume").exception)
    assert run(photos, "--out", tmp_path / "v.csv", "--force").exit_code == 0


def test_resuming_names_from_standard_input_compares_them(run, photos, tmp_path, monkeypatch):
    names = "".join(f"{photos}/{k:04d}.png\n" for k in range(25))
    options = ("-", "--out", tmp_path / "v.jsonl", *OPTIONS)
    with monkeypatch.context() as patch:
        calls = []
        real = PlantedEngine.front

        def failing(self, images):
            calls.append(1)
            if len(calls) > 2:
                raise OSError("gone")
            return real(self, images)

        patch.setattr(PlantedEngine, "front", failing)
        result = run(*options, input=names)
    assert "go on with the same names on standard input: poolsieve" in result.exception.__notes__[0]
    assert "the source has changed" in str(run(*options, "--resume", input=names[40:]).exception)
    assert run(*options, "--resume", input=names).exit_code == 0
    assert len(records(tmp_path / "v.jsonl")) == 25
