import io
import json
import os
import shutil
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import list_items, read_content


def png(colour=(255, 0, 0)):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(stream, format="png")
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path):
    base = tmp_path / "photos"
    for name in ("b.png", "a/z.jpg", "a/y/1.png", "c.txt", ".hidden.png", ".DS_Store"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(png())
    return base


def names(source, **options):
    return [item.name for item in list_items(source, **options)]


def contents(source, **options):
    """Items are read as they are listed, as sequential archives need it."""
    return list(
        read_ahead(
            list_items(source, **options), lambda item, data: read_content(item, data, 8), threads=2, ahead=3
        )
    )


def test_a_folder_is_listed_recursively_by_name_and_hides_nothing(folder):
    expected = [".hidden.png", "a/y/1.png", "a/z.jpg", "b.png", "c.txt"]
    assert names(folder) == [str(folder / name) for name in expected]


def test_links_to_folders_are_not_followed(folder):
    (folder / "loop").symlink_to(folder)
    (folder / "link.png").symlink_to(folder / "b.png")
    assert str(folder / "link.png") in names(folder)
    assert not any("loop" in name for name in names(folder))


@pytest.mark.parametrize("column", [None, "file", "picture"])
def test_tables_name_paths_relative_to_themselves(folder, column):
    header = column or "path"
    table, lines = folder / "list.csv", folder / "list.jsonl"
    table.write_text(f"id,{header}\n1,b.png\n2,a/z.jpg\n", encoding="utf-8-sig")
    lines.write_text("".join(json.dumps({header: name}) + "\n\n" for name in ("b.png", "a/z.jpg")))
    expected = [str(folder / "b.png"), str(folder / "a/z.jpg")]
    assert names(table, column=column) == names(str(lines), column=column) == expected


def test_a_missing_column_is_named_with_those_that_are_there(folder):
    (folder / "list.csv").write_text("id,url\n1,b.png\n")
    with pytest.raises(ValueError, match=r"no column 'picture'; it has 'id', 'url'\. Name .* --column"):
        names(folder / "list.csv", column="picture")


@pytest.mark.parametrize("content", [b"file\nb.png\n\xff.png\n", b"file\n" + b"x" * 200_000 + b"\n"])
def test_what_is_no_table_is_said_with_its_name(folder, content):
    (folder / "list.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"list\.csv, after line \d: not a CSV table in UTF-8"):
        names(folder / "list.csv")


def test_a_folder_that_cannot_be_listed_is_an_item_that_says_so(folder, monkeypatch):
    items = list_items(folder)
    assert next(items).name == str(folder / ".hidden.png")
    shutil.rmtree(folder / "a")  # after the folder above was listed
    gone, *rest = items
    assert gone.name == str(folder / "a")
    assert [item.name for item in rest] == [str(folder / "b.png"), str(folder / "c.txt")]
    assert read_content(gone, None, 8).reason == "the file does not exist (any more)"
    (folder / "a").mkdir()
    real = os.scandir

    def refuse(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    listed = names(folder)
    assert listed[1:3] == [str(folder / "a"), str(folder / "b.png")]
    assert contents(folder)[1].reason is not None
    monkeypatch.setattr(os, "scandir", lambda path: (_ for _ in ()).throw(PermissionError(13, "no")))
    with pytest.raises(PermissionError):  # the source itself
        names(folder)


def test_paths_on_standard_input(monkeypatch, folder):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x.png\n\ny \xff.png\r\n")))
    assert names("-") == ["x.png", "y \udcff.png"]


def test_a_list_keeps_its_order_and_missing_files_become_items(folder):
    listed = [folder / "c.txt", str(folder / "nowhere.png"), folder / "b.png"]
    assert names(listed) == [str(path) for path in listed]
    found = contents(listed)
    assert [content.reason for content in found] == [None, "the file does not exist (any more)", None]
    assert found[1].image is None


def test_a_single_source_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; give a folder"):
        list_items(tmp_path / "nowhere")


def make_archive(path, members):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:" + path.suffix[1:].replace("tar", "")) as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tar.xz"])
def test_archives_are_read_in_order_without_unpacking(tmp_path, ending):
    colours = {f"{k}.png": (k, 0, 0) for k in (7, 3, 250, 9, 12, 99)}
    archive = tmp_path / f"images.{ending}"
    members = {name: png(colour) for name, colour in colours.items()} | {"../../evil.txt": b"no image"}
    make_archive(archive, members)
    assert names(archive) == [f"{archive}/{name}" for name in members]
    found = contents(archive)
    assert [content.image.getpixel((0, 0)) for content in found[:-1]] == list(colours.values())
    assert "not a JPEG" in found[-1].reason
    assert sorted(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_a_bomb_in_an_archive_is_not_unpacked(tmp_path, ending):
    archive = tmp_path / f"bomb.{ending}"
    make_archive(archive, {"bomb.png": bytes(3_000_000), "good.png": png()})
    bomb, good = contents(archive, max_bytes=1_000_000)
    assert bomb.reason == "3,000,000 bytes are more than the limit of 1,000,000"
    assert good.image is not None


def test_a_zip_that_lies_about_sizes_is_cut_off(tmp_path):
    archive = tmp_path / "lie.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("bomb.png", bytes(3_000_000))
    data = archive.read_bytes().replace((3_000_000).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    archive.write_bytes(data)
    (bomb,) = contents(archive, max_bytes=1_000_000)
    assert bomb.image is None
    assert bomb.reason


def test_links_in_a_tar_are_not_followed(tmp_path):
    archive = tmp_path / "links.tar"
    with tarfile.open(archive, "w") as writer:
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        writer.addfile(link)
    (content,) = contents(archive)
    assert "link" in content.reason


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_a_truncated_tar_gives_what_it_holds_and_says_so(tmp_path, ending):
    archive = tmp_path / f"cut.{ending}"
    rng = np.random.default_rng(0)
    members = {f"{k}.bin": rng.bytes(5000) for k in range(6)} | {"last.png": png()}
    make_archive(archive, {"first.png": png()} | members)
    archive.write_bytes(archive.read_bytes()[:20_000])
    found = contents(archive)
    assert found[0].image is not None
    assert "damaged" in found[-1].reason
    assert len(found) < 8


@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_what_is_no_archive_is_an_error(tmp_path, ending):
    (tmp_path / f"x.{ending}").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(ValueError, match=f"no {ending} archive, or a damaged one"):
        names(tmp_path / f"x.{ending}")


def test_arrays(folder):
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    for source in (pixels, list(pixels), iter(pixels)):
        found = contents(source)
        assert [np.array_equal(content.image, pixels[k]) for k, content in enumerate(found)] == [True, True]
    assert names([pixels[0], folder / "b.png"]) == ["array[0]", str(folder / "b.png")]
    assert names(pixels[0]) == ["array[0]"]
    for wrong in (pixels.astype(float), pixels[..., 0], [pixels[0, ..., :2]], pixels[None]):
        with pytest.raises(ValueError, match=r"has shape .*; give RGB as uint8 \(H, W, 3\)"):
            names(wrong)


@pytest.mark.parametrize(("wrong", "what"), [(3, "the source is a int"), ([3], "source 0 is a int")])
def test_what_is_no_source_is_said_in_words(wrong, what):
    with pytest.raises(TypeError, match=f"{what}; give a path, bytes, an open file, a PIL image or a uint8"):
        names(wrong)


def test_a_name_with_a_zero_byte_is_an_unreadable_item():
    from poolsieve.images.sources import FileItem

    assert "cannot be read" in read_content(FileItem("a\0b.png"), None, 8).reason


class Numbered:
    sequential = False

    def __init__(self, number):
        self.name = str(number)


def test_reading_ahead_keeps_order_and_runs_no_further_than_told():
    listed, together, lock = [], [], threading.Lock()
    running = 0

    def listing():
        for number in range(60):
            listed.append(number)
            yield Numbered(number)

    def prepare(item, data):
        nonlocal running
        with lock:
            running += 1
            together.append(running)
        time.sleep(0.002 * (int(item.name) % 3))
        with lock:
            running -= 1
        return int(item.name)

    taken = []
    for number in read_ahead(listing(), prepare, threads=3, ahead=5):
        taken.append(number)
        assert len(listed) <= len(taken) + 5
    assert taken == list(range(60))
    assert max(together) == 3


def test_leaving_early_stops_the_threads():
    before = threading.active_count()
    results = read_ahead((Numbered(k) for k in range(10**9)), lambda item, data: item, threads=2, ahead=4)
    next(results)
    results.close()
    assert threading.active_count() == before


def test_a_path_that_no_table_could_hold_is_an_item_that_says_so(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    rows = [{"file": "a.png"}, {"file": "x" * 140_000}, {"file": "a.png"}]
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first, long, last = list_items(tmp_path / "list.jsonl")
    assert first.name == last.name == str(tmp_path / "a.png")
    assert long.name.endswith("...") and len(long.name) < 100
    assert read_content(long, None, 8).reason == f"a path of {140_001 + len(str(tmp_path)):,} characters"


def test_listing_is_lazy(tmp_path):
    table = tmp_path / "long.csv"
    table.write_text("file\n" + "".join(f"{k}.png\n" for k in range(100_000)))
    items = list_items(table)
    assert next(items).name == str(Path(table).parent / "0.png")
