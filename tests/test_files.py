import os
import stat

import pytest

from poolsieve.files import write_atomically


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
