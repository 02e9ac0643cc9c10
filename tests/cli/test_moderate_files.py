"""What a run writes is never judged, and never goes over what another run wrote."""

import json
import zipfile
from pathlib import Path

import pytest
from planted import write_images
from planted_command import records

from poolsieve.images.own_outputs import NOTES
from poolsieve.moderation import flagged_images
from poolsieve.moderation.verdict_files import VerdictLog


def flagged_in(out):
    return [row["path"] for row in records(out) if row["status"] == "flagged"]


@pytest.fixture
def inside(photos, monkeypatch):
    """All outputs go into the folder that is judged."""
    monkeypatch.chdir(photos)
    return ("--copy-flagged", "flagged", "--contact-sheet", "sheet.png", "--report", "page.html")


def test_results_inside_the_source_are_not_judged_by_the_next_runs(run, photos, inside):
    assert run(".", "--out", "v.csv", *inside).exit_code == 0
    first = [row["path"] for row in records(photos / "v.csv")]
    assert len(first) == 130
    for other in (
        ("--out", "v.csv", "--force", *inside),
        ("--out", "other.jsonl"),
        ("--out", "third.parquet"),
    ):
        result = run(".", *other)
        assert result.exit_code == 0, result.output
        assert [row["path"] for row in records(photos / other[1])] == first
        if "--force" not in other:
            assert "files that earlier runs of poolsieve wrote, in ., ./flagged" in result.stderr
        assert "not images" not in result.output


def test_a_resumed_run_does_not_take_its_own_results_for_new_images(run, photos, inside, monkeypatch):
    """It was killed when all but the table had been written."""
    with monkeypatch.context() as patch:
        patch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
        assert run(".", "--out", "v.jsonl", *inside).exception is not None
    assert (photos / "sheet.png").exists()
    result = run(".", "--out", "v.jsonl", *inside, "--resume")
    assert result.exit_code == 0, result.output
    assert len(records(photos / "v.jsonl")) == 130


def test_a_folder_of_copies_is_judged_if_it_is_the_source(run, photos, inside):
    assert run(".", "--out", "v.csv", *inside).exit_code == 0
    assert run("flagged", "--out", "again.csv").exit_code == 0
    assert len(flagged_in(photos / "again.csv")) == 3


def test_strangers_cannot_have_images_passed_over(run, photos, tmp_path, inside):
    """Not by bringing notes of their own, nor by a copy of true ones, nor by taking a result's place."""
    assert run(".", "--out", "v.csv", *inside).exit_code == 0
    upload = photos / "upload"
    write_images(upload, [True, True])
    states = {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in upload.iterdir()}
    forged = json.dumps({"results": {}, "copies": states}).encode()
    true_notes = (photos / "flagged" / NOTES).read_bytes()
    for notes in (
        forged,
        b"unsigned\n" + forged,
        true_notes.partition(b"\n")[0] + b"\n" + forged,
        true_notes,
    ):
        (upload / NOTES).write_bytes(notes)
        assert run(".", "--out", "w.csv", "--force").exit_code == 0
        assert len(flagged_in(photos / "w.csv")) == 5
    copy = sorted((photos / "flagged").glob("*.png"))[0]
    copy.write_bytes((photos / "0077.png").read_bytes() + b"other bytes")
    (photos / "sheet.png").write_bytes((photos / "0004.png").read_bytes())
    assert run(".", "--out", "w.csv", "--force").exit_code == 0
    assert len(flagged_in(photos / "w.csv")) == 7


def test_without_a_place_for_the_key_everything_is_judged(run, photos, inside, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    for _ in range(2):
        assert run(".", "--out", "v.csv", "--force", "--copy-flagged", "flagged").exit_code == 0
        assert len(flagged_in(photos / "v.csv")) == 3
    assert run(".", "--out", "w.csv").exit_code == 0
    assert len(flagged_in(photos / "w.csv")) == 6


@pytest.mark.parametrize("existing", ["v.csv", "page.html", "sheet.png"])
def test_no_result_is_overwritten_without_force(run, photos, tmp_path, monkeypatch, existing):
    monkeypatch.chdir(tmp_path)
    (tmp_path / existing).write_text("precious")
    options = (photos, "--out", "v.csv", "--report", "page.html", "--contact-sheet", "sheet.png")
    result = run(*options)
    assert f"{existing} exists already; give another name, or --force" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["photos", existing])
    assert (tmp_path / existing).read_text() == "precious"
    assert run(*options, "--force").exit_code == 0
    assert (tmp_path / existing).read_bytes() != b"precious"


def test_a_finished_run_that_is_resumed_says_so_and_leaves(run, photos, tmp_path):
    out = tmp_path / "v.csv"
    assert run(photos, "--out", out).exit_code == 0
    before = out.read_bytes()
    result = run(photos, "--out", out, "--resume")
    assert result.exit_code == 0
    assert "finished already, so there is nothing to do" in result.output
    assert out.read_bytes() == before
    assert "give --resume to go on" in str(run(photos, "--out", out, "--resume", "--force").exception)


def test_force_starts_an_unfinished_run_anew(run, photos, tmp_path):
    VerdictLog.begin(tmp_path / "v.csv", {"seed": 1})
    assert "start anew with --force" in str(run(photos, "--out", tmp_path / "v.csv").exception)
    assert run(photos, "--out", tmp_path / "v.csv", "--force").exit_code == 0
    assert len(records(tmp_path / "v.csv")) == 130


def test_copies_of_an_earlier_run_go_and_what_others_put_there_stays(run, photos, tmp_path):
    copies = tmp_path / "copies"
    options = ("--out", tmp_path / "v.csv", "--copy-flagged", copies, "--force")
    assert run(photos, *options).exit_code == 0
    (copies / "notes.txt").write_text("mine")
    (copies / "0000077_0077.png").write_bytes(b"changed by hand")
    (photos / "0004.png").write_bytes((photos / "0003.png").read_bytes())
    (photos / "0077.png").write_bytes((photos / "0003.png").read_bytes())
    assert run(photos, *options).exit_code == 0
    kept = sorted(path.name for path in copies.iterdir())
    assert kept == [NOTES, "0000077_0077.png", "0000129_0129.png", "notes.txt"]


def test_what_a_killed_run_left_of_copies_goes(run, photos, tmp_path):
    copies = tmp_path / "copies"
    copies.mkdir()
    left = [f".{NOTES}.abcd_123.part", ".0000004_0004.png.abcdefgh.part"]
    others = [".0000004_0004.png.part", ".mine.abcdefgh.part"]
    options = (photos, "--out", tmp_path / "v.csv", "--copy-flagged", copies, "--force")
    for name in left:
        (copies / name).write_bytes(b"half")
    assert run(*options).exit_code == 0
    before = sorted(path.name for path in copies.iterdir())
    assert before == [NOTES, "0000004_0004.png", "0000077_0077.png", "0000129_0129.png"]
    for name in left + others:
        (copies / name).write_bytes(b"half")
    assert run(*options).exit_code == 0
    assert sorted(path.name for path in copies.iterdir()) == sorted(before + others)


def test_copies_do_not_go_among_other_files(run, photos, tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    options = (photos, "--out", tmp_path / "v.csv", "--copy-flagged")
    assert "is not empty and was not made by --copy-flagged" in str(
        run(*options, tmp_path / "full").exception
    )
    assert "where copies shall go; choose another folder" in str(run(*options, photos).exception)
    assert "where copies shall go; choose another folder" in str(run(*options, tmp_path).exception)
    (tmp_path / "empty").mkdir()
    assert run(*options, tmp_path / "empty").exit_code == 0


@pytest.mark.parametrize("name", ["狗" * 80 + ".png", "x" * 250 + ".png"])
def test_flagged_images_with_long_names_are_copied(run, tmp_path, name):
    (flagged,) = write_images(tmp_path / "photos", [True])
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.write(flagged, name)
    copies = tmp_path / "copies"
    result = run(tmp_path / "photos.zip", "--out", tmp_path / "v.csv", "--copy-flagged", copies)
    assert result.exit_code == 0, result.output
    (copy,) = copies.glob("*.png")
    assert copy.read_bytes() == flagged.read_bytes()


def test_stray_temporary_files_of_killed_runs_are_removed(run, photos, tmp_path):
    for name in (".v.csv.abcd_123.part", ".page.html.00000000.part"):
        (tmp_path / name).write_text("torn")
    for name in (".other.csv.abcd_123.part", ".v.csv.part", "v.csv.abcd_123.part"):
        (tmp_path / name).write_text("another's")
    assert run(photos, "--out", tmp_path / "v.csv", "--report", tmp_path / "page.html").exit_code == 0
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert left == [".other.csv.abcd_123.part", ".v.csv.part", "page.html", "v.csv", "v.csv.abcd_123.part"]


def test_files_that_are_no_images_are_counted_apart(run, photos, tmp_path):
    (photos / "notes.txt").write_text("remember the milk")
    (photos / ".gitkeep").write_bytes(b"")
    with zipfile.ZipFile(photos / "more.zip", "w") as archive:
        archive.write(photos / "0004.png", "bad.png")
    result = run(photos, "--out", tmp_path / "v.jsonl", "--scheme", "individual")
    assert result.exit_code == 0, result.output
    rows = {row["path"].rsplit("/", 1)[1]: row for row in records(tmp_path / "v.jsonl")}
    others = {name for name, row in rows.items() if row["status"] == "not_image"}
    assert others == {"notes.txt", ".gitkeep", "more.zip"}
    assert "give it as a source itself" in rows["more.zip"]["reason"]
    assert "3 files, not judged" in result.output
    assert (
        f"not opened: {photos}/more.zip. To judge what is in an archive, give it as a source" in result.stderr
    )
    text = run("--out", tmp_path / "w.jsonl", photos, "--explain", "notes.txt").output
    assert "notes.txt: not judged: not a JPEG" in text

    (photos / "0050.png").write_bytes((photos / "0050.png").read_bytes()[:40])
    result = run(photos, "--out", tmp_path / "w.jsonl", "--force", "--report", tmp_path / "page.html")
    assert result.exit_code == 1
    assert "files that are no images" in (tmp_path / "page.html").read_text()


def test_a_folder_without_images_says_what_is_looked_for(run, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("a")
    result = run(tmp_path / "texts", "--out", tmp_path / "v.csv")
    assert result.exit_code == 0
    assert "no image was found in" in result.stderr


def test_sheet_and_report_read_the_flagged_images_once(run, photos, tmp_path, monkeypatch):
    read, real = [], flagged_images.read_content

    def counted(item, *arguments, **options):
        read.append(Path(item.name).name)
        return real(item, *arguments, **options)

    monkeypatch.setattr(flagged_images, "read_content", counted)
    options = ("--report", tmp_path / "page.html", "--contact-sheet", tmp_path / "sheet.png")
    assert run(photos, "--out", tmp_path / "v.csv", *options).exit_code == 0
    assert sorted(read) == ["0004.png", "0077.png", "0129.png"]
