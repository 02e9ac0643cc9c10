import json
import os
import re
import signal
import time
import zipfile
from pathlib import Path

import hostile
import planted_command
import pytest
from PIL import Image
from planted import SIDE, Doubting, OneInSomePools, PlantedEngine, write_images
from planted_command import command, load_planted, records

from poolsieve.images import sources
from poolsieve.moderation import Moderator
from poolsieve.moderation.verdict_files import VerdictLog
from poolsieve.planning.plans import Plan, save_plan
from poolsieve.schemes import decoded_pools, list_schemes
from poolsieve.statistics import Estimate

finish = VerdictLog.finish


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_verdicts_are_written_by_the_files_ending(run, photos, tmp_path, ending):
    out = tmp_path / f"deep/verdicts.{ending}"
    result = run(photos, "--out", out, "--seed", 5)
    assert result.exit_code == 0, result.output
    rows = records(out)
    assert [Path(row["path"]).name for row in rows] == [f"{k:04d}.png" for k in range(130)]
    assert [k for k, row in enumerate(rows) if row["status"] == "flagged"] == [4, 77, 129]
    assert {int(row["seed"]) for row in rows} == {5}
    pools = rows[4]["pools"]
    pools = json.loads(pools) if isinstance(pools, str) else pools
    assert [pool["count"] for pool in pools] == [1, 1]
    for text in ("130", "flagged", "3", "images/s", "of testing every image", "estimated prevalence", "seed"):
        assert text in result.output
    assert sorted(path.name for path in out.parent.iterdir()) == [out.name]


def test_some_unreadable_images_give_status_one(run, photos, tmp_path):
    (photos / "0050.png").write_bytes(b"")
    result = run(photos, "--out", tmp_path / "v.csv")
    assert result.exit_code == 1
    row = records(tmp_path / "v.csv")[50]
    assert (row["status"], row["reason"], row["score"]) == ("error", "the file is empty", "")


def test_an_empty_folder_gives_an_empty_table(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for ending in ("csv", "jsonl", "parquet"):
        result = run(tmp_path / "empty", "--out", tmp_path / f"v.{ending}")
        assert result.exit_code == 0, result.output
        assert records(tmp_path / f"v.{ending}") == []
    assert "unknown" in result.output
    assert f"no image was found in {tmp_path / 'empty'}" in result.stderr
    assert "JPEG, PNG, WEBP, GIF, BMP are read" in result.stderr


def test_a_source_with_images_gets_no_hint(run, photos, tmp_path):
    assert "no image was found" not in run(photos, "--out", tmp_path / "v.csv").stderr


def test_paths_on_standard_input_and_several_sources(run, photos, tmp_path):
    names = f"{photos}/0004.png\n{photos}/none.png\n"
    sheet, copies = tmp_path / "sheet.png", tmp_path / "copies"
    options = ("--out", tmp_path / "v.jsonl", "--contact-sheet", sheet, "--copy-flagged", copies)
    result = run("-", *options, input=names)
    assert result.exit_code == 1
    assert [row["status"] for row in records(tmp_path / "v.jsonl")] == ["flagged", "error"]
    assert [path.name for path in copies.glob("*.png")] == ["0000000_0004.png"]
    result = run(photos / "0004.png", photos / "0005.png", "--out", tmp_path / "v.jsonl", "--force")
    assert result.exit_code == 0
    assert [row["status"] for row in records(tmp_path / "v.jsonl")] == ["flagged", "clear"]


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_flagged_images_are_copied_and_shown(run, photos, tmp_path, kind):
    source = photos
    if kind == "zip":
        source = tmp_path / "photos.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for file in sorted(photos.iterdir()):
                archive.write(file, f"../{file.name}")
    sheet, copies = tmp_path / "sheet.png", tmp_path / "copies"
    result = run(source, "--out", tmp_path / "v.csv", "--copy-flagged", copies, "--contact-sheet", sheet)
    assert result.exit_code == 0, result.output
    expected = ["0000004_0004.png", "0000077_0077.png", "0000129_0129.png"]
    assert sorted(path.name for path in copies.glob("*.png")) == expected
    assert (copies / "0000077_0077.png").read_bytes() == (photos / "0077.png").read_bytes()
    with Image.open(sheet) as picture:
        assert picture.width > 3 * 160
        assert picture.convert("RGB").getpixel((88, 88))[0] == 255


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_what_vanished_does_not_make_others_look_flagged(run, photos, tmp_path, monkeypatch, kind):
    """The second image goes while it is read, the third bad one after it was judged."""
    real, append, source = sources.read_limited, VerdictLog.append, [photos]
    if kind == "zip":
        source.append(tmp_path / "more.zip")
        with zipfile.ZipFile(source[1], "w") as archive:
            archive.write(photos / "0003.png", "clear.png")
            archive.write(photos / "0077.png", "bad.png")

    def vanishing(path, max_bytes):
        if path.endswith("0001.png"):
            Path(path).unlink()
        return real(path, max_bytes)

    def losing(self, *arguments):
        (photos / "0129.png").unlink()
        return append(self, *arguments)

    monkeypatch.setattr(sources, "read_limited", vanishing)
    monkeypatch.setattr(VerdictLog, "append", losing)
    copies, sheet = tmp_path / "copies", tmp_path / "sheet.png"
    options = ("--out", tmp_path / "v.jsonl", "--copy-flagged", copies, "--contact-sheet", sheet)
    result = run(*source, *options, "--scheme", "individual", "--chunk", 200)
    assert result.exit_code == 1, result.output
    flagged = [row["position"] for row in records(tmp_path / "v.jsonl") if row["status"] == "flagged"]
    assert flagged == [4, 77, 129, *([131] if kind == "zip" else [])]
    copied = {path.name: path.read_bytes() for path in copies.glob("*.png")}
    # Members of an archive are found by their place, which has changed: none is copied rather than another.
    assert copied == {f"{k:07d}_{k:04d}.png": (photos / f"{k:04d}.png").read_bytes() for k in (4, 77)}
    assert f"{photos}/0129.png was not copied" in result.output
    assert result.output.count("was not copied") == len(flagged) - 2
    assert sheet.exists()


def test_no_flagged_images_still_give_a_sheet(run, tmp_path):
    write_images(tmp_path / "clear", [False] * 3)
    sheet = tmp_path / "sheet.png"
    assert run(tmp_path / "clear", "--out", tmp_path / "v.csv", "--contact-sheet", sheet).exit_code == 0
    assert sheet.exists()


@pytest.mark.parametrize("scheme", ["auto", *list_schemes()])
def test_every_scheme_explains_flagged_clear_and_unreadable_images(run, photos, tmp_path, scheme):
    (photos / "0050.png").write_bytes(b"")
    options = ("--out", tmp_path / "v.jsonl", "--scheme", scheme, "--seed", 3, "--force")
    texts = [run(photos, *options, "--explain", f"{k:04d}.png").output for k in (77, 51, 50)]
    row = records(tmp_path / "v.jsonl")[77]
    assert f"0077.png: flagged, score {row['score']:.4f}, decided by {row['decided_by']}" in texts[0]
    assert ("tested on its own: score" in texts[0]) == (row["decided_by"] == "individual")
    assert texts[0].count("was read as holding 1 bad") == len(row["pools"])
    assert texts[0].count("    with ") == sum(len(pool["members"]) - 1 for pool in row["pools"])
    assert ("first look" in texts[0]) == (row["prior"] is not None) == (scheme != "individual")
    assert ("score from its pools" in texts[0]) == bool(row["pools"])
    assert "seed 3" in texts[0]
    assert "0051.png: clear, score" in texts[1]
    assert "0050.png: could not be read: the file is empty" in texts[2]


def test_pools_of_two_sizes_are_explained(run, photos, tmp_path, monkeypatch):
    """What looks bad or is doubted is in pools of 4, what looks clear in pools of 8."""
    monkeypatch.setattr(planted_command, "PlantedEngine", Doubting)
    large = ("--pool-size", 4, "--large-below", 0.005, "--large-pool-size", 8, "--pools-per-image", 1)
    options = ("--out", tmp_path / "v.jsonl", "--force", "--scheme", "adaptive", "--seed", 1, *large)
    for number, sizes in ((77, (2, 3, 4)), (5, (2, 3, 4)), (51, (5, 6, 7, 8))):
        text = run(photos, *options, "--explain", f"{number:04d}.png").output
        size = int(re.search(r"pool \d+ \((\d) images\) was read as holding", text).group(1))
        assert size in sizes
        assert text.count("    with ") == size - 1
        told = re.search(r"\(probabilities (.*)\)", text).group(1).split(", ")
        assert [part.split(":")[0] for part in told] == list(map(str, range(size + 1)))
        pool = records(tmp_path / "v.jsonl")[number]["pools"][0]
        assert number in pool["members"]
        assert pool["count"] == sum(member in (4, 77, 129) for member in pool["members"])
    text = run(photos, *options, "--test-above", 0.1, "--explain", "0077.png").output
    assert "was read as holding" not in text
    assert "score from its pools" not in text  # it was in none
    assert "tested on its own" in text


def test_a_plan_for_other_shares_of_bad_images_is_warned_of(run, photos, tmp_path):
    for prevalence, words in ((0.0001, "may miss more"), (0.02, None), (0.4, "would cost less")):
        sure = Estimate(1.0, 1.0, 1.0)
        made = Plan("adaptive", {"prevalence": prevalence}, prevalence, sure, sure, sure, sure)
        save_plan(made, tmp_path / "plan.json", bundle="ab" * 32)
        result = run(photos, "--out", tmp_path / "v.csv", "--force", "--plan", tmp_path / "plan.json")
        assert result.exit_code == 0, result.output
        assert ("warning: the plan is for" in result.output) == (words is not None)
        assert words is None or words in result.output


def test_one_image_is_explained(run, photos, tmp_path):
    result = run(photos, "--out", tmp_path / "v.csv", "--explain", "0077.png", "--seed", 1)
    assert "0077.png: flagged, score" in result.output
    assert result.output.count("was read as holding 1 bad") == 2
    assert "tested on its own" in result.output
    assert "    with " in result.output
    result = run(photos, "--out", tmp_path / "v.csv", "--force", "--explain", "nothing.png")
    assert "no image is named nothing.png" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--out", "v.txt"), "verdicts are written as .csv, .jsonl, .parquet"),
        (("--out", "v.csv", "--contact-sheet", "sheet.gif"), "a contact sheet ends in .png"),
        (("--out", "v.csv", "--report", "page.pdf"), "a report ends in .html"),
        (("--out", "v.csv", "--pool-size", 5), "networks for pools of 4, 8"),
        (("--out", "v.csv", "--scheme", "individual", "--pool-size", 8), "has no parameter 'pool_size'"),
        (("--out", "v.csv", "--seed", -3), "seed=-3"),
        (("--out", "/dev/null/v.csv"), "/dev/null"),
        (("--out", "v.csv", "--contact-sheet", "/dev/null/sheet.png"), "/dev/null"),
        (("--out", "v.csv", "--copy-flagged", "/dev/null/copies"), "/dev/null"),
        (("--out", "v.csv", "--report", "/dev/null/page.html"), "/dev/null"),
        (("--out", "photos"), "verdicts are written as"),
        (("--out", "v.csv", "--copy-flagged", "photos/0001.png"), "0001.png is a file, not a folder"),
    ],
)
def test_what_cannot_run_is_said_before_any_work(run, photos, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(photos, *arguments)
    assert isinstance(result.exception, ValueError | OSError)
    assert message in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


def test_a_missing_source_leaves_nothing_behind(run, tmp_path):
    result = run(tmp_path / "none", "--out", tmp_path / "v.csv")
    assert isinstance(result.exception, FileNotFoundError)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file_and_the_log(run, photos, tmp_path, monkeypatch):
    out = tmp_path / "v.csv"
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert isinstance(run(photos, "--out", out, "--seed", 3, "--force").exception, OSError)
    monkeypatch.undo()
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".v.csv*"))


def test_an_unfinished_run_is_not_overwritten(run, photos, tmp_path):
    VerdictLog.begin(tmp_path / "v.csv", {"seed": 1})
    result = run(photos, "--out", tmp_path / "v.csv")
    assert "go on with --resume" in str(result.exception)
    result = run(photos, "--out", tmp_path / "v.csv", "--resume")
    assert "is of a run with source None" in str(result.exception)


def test_a_killed_run_goes_on_and_ends_with_the_same_records(run, photos, tmp_path):
    (photos / "0020.png").write_bytes(b"damaged")
    options = ("--scheme", "dorfman", "--pool-size", 4, "--chunk", 12)
    assert run(photos, "--out", tmp_path / "whole.jsonl", "--seed", 99, *options).exit_code == 1
    out = tmp_path / "killed.jsonl"
    log = VerdictLog.path_for(out)
    process = command(0.15, photos, "--out", out, "--seed", 99, *options)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not (log.exists() and b'chunk_done":2' in log.read_bytes()):
        assert process.poll() is None, process.stdout.read().decode()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not out.exists()
    with log.open("a") as stream:
        stream.write('{"path":"cut off in the midd')  # as a kill within a write leaves it
    judged = sum(b'"path"' in line for line in log.read_bytes().splitlines())
    assert 36 <= judged < 130

    result = run(photos, "--out", out, "--resume", *options)  # the seed is in the log
    assert result.exit_code == 1, result.output
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not log.exists()
    assert "130" in result.output


def test_resuming_does_only_what_is_missing(run, photos, tmp_path, monkeypatch):
    out = tmp_path / "v.jsonl"
    options = (photos, "--out", out, "--scheme", "individual", "--chunk", 30, "--seed", 4)
    monkeypatch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
    assert run(*options).exception is not None
    log = VerdictLog.path_for(out)
    lines = log.read_bytes().splitlines(keepends=True)
    monkeypatch.undo()
    monkeypatch.setattr(Moderator, "load", load_planted)
    judged = []
    real = PlantedEngine.front
    monkeypatch.setattr(PlantedEngine, "front", lambda self, x: (judged.append(len(x)), real(self, x))[1])

    assert run(*options, "--resume").exit_code == 0  # all was done but for the output
    assert judged == []
    whole = out.read_bytes()
    log.write_bytes(b"".join(lines[: 1 + 2 * 31 + 7]))  # two chunks and a bit
    assert run(*options, "--resume").exit_code == 0
    assert judged == [30, 30, 10]
    assert out.read_bytes() == whole


def test_a_report_shows_the_flagged_images_also_after_resuming(run, photos, tmp_path, monkeypatch):
    (photos / "0020.png").write_bytes(b"damaged")
    report = tmp_path / "deep/report.html"
    options = (photos, "--out", tmp_path / "v.csv", "--report", report, "--chunk", 60, "--seed", 4)
    monkeypatch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
    assert run(*options).exception is not None
    monkeypatch.undo()
    monkeypatch.setattr(Moderator, "load", load_planted)
    report.unlink()
    result = run(*options, "--resume")
    assert result.exit_code == 1, result.output
    assert f"wrote {report}" in result.output.replace("\n", "")
    text = report.read_text()
    assert text.count('src="data:image/jpeg') == 3
    for name in ("0004.png", "0077.png", "0129.png", "0020.png"):
        assert name in text


def test_a_run_is_not_resumed_in_another_precision(run, photos, tmp_path, monkeypatch):
    options = (photos, "--out", tmp_path / "v.csv", "--seed", 4)
    monkeypatch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
    assert run(*options).exception is not None
    monkeypatch.undo()
    monkeypatch.setattr(Moderator, "load", load_planted)
    refused = run(*options, "--resume", "--precision", "low")
    assert "a run with precision 'fp32', not 'low'" in str(refused.exception)
    assert run(*options, "--resume").exit_code == 0


def test_frames_of_an_animation(run, photos, tmp_path):
    clear, bad = (Image.new("RGB", (SIDE, SIDE), (value, 1, 0)) for value in (0, 255))
    (photos / "moving.gif").write_bytes(
        hostile.encoded(clear, format="gif", save_all=True, append_images=[bad])
    )
    for frames, status in ((1, "clear"), (2, "flagged")):
        out = tmp_path / f"{frames}.jsonl"
        assert run(photos, "--out", out, "--frames", frames).exit_code == 0
        last = json.loads(out.read_text().splitlines()[-1])
        assert (Path(last["path"]).name, last["status"]) == ("moving.gif", status)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_decoder_that_stopped_early_is_on_record_and_in_the_summary(
    run, photos, tmp_path, monkeypatch, ending
):
    monkeypatch.setattr(PlantedEngine, "pooled", OneInSomePools.pooled)
    monkeypatch.setattr(decoded_pools, "NODE_LIMIT", 3)
    (photos / "0010.png").write_bytes(b"")
    options = (photos, "--scheme", "oneshot", "--prevalence", 0.1, "--seed", 2)
    out = tmp_path / f"v.{ending}"
    result = run(*options, "--out", out)
    assert "in 2 chunks the decoder stopped before it was done" in result.output
    notes = [row["note"] for row in records(out)]
    assert not notes[10]  # could not be read, so nothing was decided
    assert set(notes[:10] + notes[11:]) == {"mip stopped at its limit of 3 nodes; a better answer may exist"}

    log = VerdictLog.path_for(out)
    monkeypatch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
    assert run(*options, "--out", out, "--force").exception is not None
    monkeypatch.setattr(VerdictLog, "finish", finish)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:102]))  # header, 100, chunk_done
    result = run(*options, "--out", out, "--resume")
    assert "in 2 chunks the decoder stopped before it was done" in result.output
    assert [row["note"] for row in records(out)] == notes
