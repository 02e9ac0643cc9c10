import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.files import LONGEST_NAME, remove_temporary_files, shorten_name, write_atomically


def test_writes_whole_files_with_ordinary_rights(tmp_path):
    path = write_atomically(tmp_path / "new" / "folder" / "file.txt", b"content")
    assert path.read_bytes() == b"content"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failure_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_text("old")
    monkeypatch.setattr(
        "poolsieve.files.os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("name", ["x" * 255, "狗" * 85, "\udcff" * 255, "🐕" * 63])
def test_the_longest_names_can_be_written(tmp_path, name):
    assert write_atomically(tmp_path / name, b"content").read_bytes() == b"content"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(8, 40))
def test_a_shortened_name_is_the_end_of_the_whole(name, most):
    short = shorten_name(name, most)
    assert name.endswith(short)
    assert len(os.fsencode(short)) <= most
    assert short == name or len(os.fsencode(short)) > most - 4


@pytest.mark.parametrize("name", ["v.csv", "狗" * 80 + "[a-z].csv"])
def test_what_a_killed_run_left_of_a_file_is_removed_and_nothing_else(tmp_path, name, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("poolsieve.files.Path.unlink", lambda *arguments, **options: None)
        patch.setattr("poolsieve.files.os.fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / name, b"content")
    (left,) = tmp_path.iterdir()
    assert len(os.fsencode(left.name)) <= LONGEST_NAME
    others = [tmp_path / "other.csv", tmp_path / ".w.csv.abcdefgh.part", tmp_path / ".v.csv.part"]
    for other in others:
        other.write_text("another's")
    remove_temporary_files(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == sorted(others)
    remove_temporary_files(tmp_path / "no such folder" / name)
