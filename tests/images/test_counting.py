import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from poolsieve.images import own_outputs
from poolsieve.images.counting import count_items
from poolsieve.images.own_outputs import OwnOutputs, note_outputs
from poolsieve.images.sources import list_items


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "photos"
    for name in ("a.png", "b/c.png", "b/d/e.png", "b/d/f.txt", ".DS_Store", "b/Thumbs.db", "z/flagged/1.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to(folder / "b")
    (folder / "link.png").symlink_to(folder / "a.png")
    (folder / "broken.png").symlink_to(folder / "nowhere")
    note_outputs(folder / "z" / "flagged", copies=["1.png"])
    (tmp_path / "list.csv").write_text('file\na.png\n"two\nlines.png"\n\n')
    (tmp_path / "list.jsonl").write_text('{"file": "a"}\n\n{"file": "b"}\n')
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/a.png", "x")
        archive.writestr("b.png", "x")
    with tarfile.open(tmp_path / "x.tar", "w"):
        pass
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expected"),
    [("photos", 6), ("list.csv", 2), ("list.jsonl", 2), ("x.zip", 2), ("photos/a.png", 1)],
)
def test_as_many_are_counted_as_are_listed(place, name, expected):
    source = str(place / name)
    listed = list(list_items(source, outputs=OwnOutputs()))
    assert count_items([source], column=None, outputs=OwnOutputs()) == len(listed) == expected
    assert count_items([source] * 2, column=None, outputs=OwnOutputs()) == 2 * expected


def test_what_the_run_itself_writes_is_not_counted(place):
    source = str(place / "photos")
    outputs = [place / "photos" / "b", place / "photos" / "a.png"]
    listed = [item.name for item in list_items(source, outputs=OwnOutputs(outputs))]
    assert listed == [f"{source}/broken.png", f"{source}/link.png"]
    assert count_items([source], column=None, outputs=OwnOutputs(outputs)) == 2


def test_what_would_have_to_be_read_is_not_counted(place):
    assert count_items(["-"], column=None, outputs=OwnOutputs()) is None
    assert (
        count_items([str(place / "photos"), str(place / "x.tar")], column=None, outputs=OwnOutputs()) is None
    )


def test_a_key_is_made_once_and_is_the_user_s_own(place):
    key = own_outputs._key(make=True)
    assert key == own_outputs._key(make=True) == own_outputs._key(make=False)
    file = Path(os.environ["XDG_STATE_HOME"]) / "poolsieve" / "outputs.key"
    assert file.stat().st_mode & 0o777 == 0o600
