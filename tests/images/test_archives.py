"""Archives that are made to harm end in words; what comes before the harm is read."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import hostile
import pytest
from PIL import Image

from poolsieve.images import archives
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import list_items, read_content

GOOD = hostile.encoded(Image.new("RGB", (8, 8), (1, 2, 3)), format="png")
GOOD_MEMBER = hostile.tar_header("good.png", len(GOOD)) + hostile.padded(GOOD)
END = bytes(1024)
COMPRESSORS = {"tar": bytes, "tar.gz": gzip.compress, "tar.bz2": bz2.compress, "tar.xz": lzma.compress}


def contents(source):
    items = list_items(source)
    return list(
        read_ahead(items, lambda item, data: (item.name, read_content(item, data, 8)), threads=2, ahead=3)
    )


def good_then_refused(path):
    """The reason of the last record, which bears the archive's name, behind a good image."""
    (_, good), *between, (name, last) = contents(path)
    assert good.image is not None
    assert name == str(path)
    assert last.image is None
    assert all(content.image is None for _, content in between)
    return last.reason


BAD_MEMBERS = {
    "2^62 bytes": (hostile.tar_header("x.png", 2**62), "it ends within a member"),
    "2^62 bytes by pax": (hostile.pax("size", 2**62) + hostile.tar_header("x.png", 3), "it ends within"),
    "negative size by pax": (hostile.pax("size", -512) + hostile.tar_header("x.png", 3), ""),
    "a header of 2 MB": (
        hostile.tar_header("pax", 2_000_000, tarfile.XHDTYPE) + bytes(2_000_000),
        "a header of 2,000,000 bytes, more than 1,000,000",
    ),
    "a long name of 2 MB": (
        hostile.tar_header("x", 2_000_000, tarfile.GNUTYPE_LONGNAME) + b"a" * 2_000_000,
        "a header of 2,000,000 bytes, more than 1,000,000",
    ),
    "headers of headers": (hostile.pax("comment", "x") * 3000, "damaged from here on"),
    "no header": (b"\x01" * 512 + GOOD_MEMBER, "damaged from here on"),
    "holes": (hostile.tar_header("x.png", 5, tarfile.GNUTYPE_SPARSE), "a file with holes"),
}


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize("bad", BAD_MEMBERS)
def test_a_tar_ends_in_words_where_it_is_bad(tmp_path, bad, ending):
    member, reason = BAD_MEMBERS[bad]
    archive = tmp_path / f"bad.{ending}"
    archive.write_bytes(COMPRESSORS[ending](GOOD_MEMBER + member + END))
    found = good_then_refused(archive)
    assert "damaged from here on" in found
    assert reason in found


def test_headers_for_all_members_do_not_grow_for_ever(tmp_path):
    def shared(number):
        record = hostile.pax(f"key{number}", "x" * 600_000)
        return hostile.tar_header("pax", 600_020, tarfile.XGLTYPE) + record[512:]

    archive = tmp_path / "bad.tar"
    members = b"".join(shared(number) + GOOD_MEMBER for number in range(9))
    archive.write_bytes(GOOD_MEMBER + members + END)
    found = contents(archive)
    assert [content.image is not None for _, content in found] == [True] * 2 + [False]
    assert "headers for all members of more than 1,000,000 bytes" in found[-1][1].reason


@pytest.mark.parametrize("ending", ["tar.gz", "tar.bz2", "tar.xz"])
def test_several_streams_in_one_file_are_one_archive(tmp_path, ending):
    archive, pack = tmp_path / f"two.{ending}", COMPRESSORS[ending]
    archive.write_bytes(pack(GOOD_MEMBER) + pack(GOOD_MEMBER[:100]) + pack(GOOD_MEMBER[100:] + END))
    assert [content.reason for _, content in contents(archive)] == [None, None]


@pytest.mark.parametrize("ending", ["tar.gz", "tar.bz2", "tar.xz"])
def test_an_archive_that_unpacks_to_too_much_is_cut_off(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 1_000_000)
    archive = tmp_path / f"bomb.{ending}"
    empty = hostile.tar_header("zeros", 600_000) + hostile.padded(bytes(600_000))
    archive.write_bytes(COMPRESSORS[ending](GOOD_MEMBER + empty * 10 + END))
    assert "unpacks to more than 200 times its size" in good_then_refused(archive)


def test_time_to_unpack_a_member_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_SECONDS", -1.0)
    for name in ("slow.tar.gz", "slow.zip"):
        archive = tmp_path / name
        if name.endswith("zip"):
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
                writer.writestr("x.png", GOOD)
            assert "unpacking took more than -1 seconds" in contents(archive)[0][1].reason
        else:
            archive.write_bytes(gzip.compress(GOOD_MEMBER + END))
            with pytest.raises(ValueError, match="unpacking took more than -1 seconds"):
                contents(archive)


def test_members_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 2)
    archive = tmp_path / "many.tar"
    archive.write_bytes(GOOD_MEMBER * 5 + END)
    reasons = [content.reason for _, content in contents(archive)]
    assert reasons == [None, None, "the archive has more than 2 members; the others are not read"]


def test_a_long_name_is_not_kept(tmp_path):
    zipped, tarred = tmp_path / "names.zip", tmp_path / "names.tar"
    with zipfile.ZipFile(zipped, "w") as writer:
        writer.writestr("a" * 60_000, GOOD)
        writer.writestr("good.png", GOOD)
    tarred.write_bytes(hostile.pax("path", "a" * 60_000) + GOOD_MEMBER + GOOD_MEMBER + END)
    for archive in (zipped, tarred):
        (name, long), (_, good) = contents(archive)
        assert len(name) < 200 + len(str(archive))
        assert long.reason == "a name of 60,000 characters in an archive"
        assert good.image is not None


def test_an_empty_name_in_a_zip_is_a_member_like_others(tmp_path):
    archive = tmp_path / "nameless.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("x", GOOD)
        writer.writestr("good.png", GOOD)
        writer.filelist[0].filename = writer.filelist[0].orig_filename = ""
        writer._didModify = True
    found = contents(archive)
    assert [name for name, _ in found] == [f"{archive}/", f"{archive}/good.png"]
    assert found[1][1].image is not None


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_take_any_memory_are_refused(tmp_path, method):
    archive = tmp_path / "odd.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("odd.png", GOOD, compress_type=method)
        writer.writestr("good.png", GOOD)
    (_, odd), (_, good) = contents(archive)
    assert "only stored and deflated members are read" in odd.reason
    assert good.image is not None


def test_a_zip_whose_members_share_their_bytes_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 1_000_000)
    archive = tmp_path / "overlap.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("good.png", GOOD)
        writer.writestr("zeros", bytes(900_000))
        writer.filelist += [writer.filelist[1]] * 100
        writer._didModify = True
    found = contents(archive)
    assert found[0][1].image is not None
    assert found[-1][0] == str(archive)
    assert "unpacks to more than 200 times its size" in found[-1][1].reason
    assert len(found) < 50


def test_the_directory_of_a_zip_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archives._DirectoryReader, "largest", 500)
    archive = tmp_path / "many.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        for number in range(50):
            writer.writestr(f"{number}.png", GOOD)
    with pytest.raises(ValueError, match=r"a directory of 2,590 bytes, more than 500; make several"):
        contents(archive)


MEMORY = """
import resource, sys
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import list_items, read_content
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read = lambda item, data: read_content(item, data, 8).reason
reasons = list(read_ahead(list_items(sys.argv[1]), read, threads=8, ahead=200))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(reasons), reasons[-1])
"""


def xz_with_a_dictionary_of_a_gigabyte(data):
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}])


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("kind", ["bz2", "long names", "xz"])
def test_memory_does_not_follow_what_an_archive_claims(tmp_path, kind):
    """Kilobytes that unpack to 200 MB."""
    zeros = bytes(200_000_000)
    if kind == "bz2":
        archive, data = tmp_path / "a.tar.bz2", bz2.compress(hostile.tar_header("z", 2**33) + zeros)
    elif kind == "long names":
        header = hostile.tar_header("x", len(zeros), tarfile.GNUTYPE_LONGNAME)
        archive, data = tmp_path / "a.tar.gz", gzip.compress(GOOD_MEMBER + header + zeros, 1)
    else:
        archive, data = tmp_path / "a.tar.xz", xz_with_a_dictionary_of_a_gigabyte(GOOD_MEMBER + END)
    archive.write_bytes(data)
    done = subprocess.run([sys.executable, "-c", MEMORY, str(archive)], capture_output=True, text=True)
    if kind == "xz":
        assert "no tar archive, or a damaged one (Memory usage limit exceeded)" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    kilobytes, count, _ = done.stdout.split(" ", 2)
    assert int(kilobytes) < 50_000
    assert int(count) >= 1


def test_members_are_not_loaded_far_ahead_if_they_are_large():
    """200 of them may be waited for, but not 200 times 50 MB."""
    loaded, go_on = [], threading.Event()

    class Large:
        name, sequential, size = "large", True, 50_000_000

        def load(self):
            loaded.append(self)
            return b"small in truth"

    def prepare(item, data):
        go_on.wait()
        return data

    reading = threading.Thread(
        target=lambda: list(read_ahead((Large() for _ in range(12)), prepare, threads=2, ahead=200))
    )
    reading.start()
    while len(loaded) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    held = len(loaded)
    go_on.set()
    reading.join()
    assert held == 2
    assert len(loaded) == 12


@pytest.mark.parametrize("line", ["[" * 100_000, '{"file": ' * 100_000])
def test_a_deeply_nested_line_of_json_is_an_error_in_words(tmp_path, line):
    table = tmp_path / "list.jsonl"
    table.write_text(json.dumps({"file": "a.png"}) + "\n" + line + "\n")
    items = list_items(table)
    assert next(items).name == str(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"list\.jsonl, line 2: not JSON"):
        next(items)


def test_an_endless_line_of_json_is_an_error_in_words(tmp_path):
    table = tmp_path / "list.jsonl"
    table.write_text('{"file": "' + "a" * 2_000_000)
    with pytest.raises(ValueError, match=r"list\.jsonl, line 1: longer than 1,000,000 characters"):
        list(list_items(table))


def test_a_folder_deeper_than_pythons_stack(tmp_path):
    inner = Path(*["d"] * 1200, "deep.png")
    (tmp_path / "z.png").write_bytes(GOOD)
    subprocess.run(["mkdir", "-p", inner.parent], cwd=tmp_path, check=True)
    try:
        (tmp_path / inner).write_bytes(GOOD)
        assert [item.name for item in list_items(tmp_path)] == [
            str(tmp_path / inner),
            str(tmp_path / "z.png"),
        ]
    finally:  # pytest's own cleaning up goes no deeper than Python's stack
        subprocess.run(["rm", "-rf", "d"], cwd=tmp_path, check=True)
