"""An image is read small where that is enough, and its other view can be had later."""

import gc
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from poolsieve.images.in_memory import BytesItem, OpenFileItem
from poolsieve.images.sources import FileItem, list_items
from poolsieve.images.views import ViewRequest, _KeptBytes, read_views

REQUEST = ViewRequest(size=16, resize_mode="stretch", shrink=2)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (5, 5, 3), dtype=np.uint8)).resize((100, 80))
    stream = io.BytesIO()
    picture.save(stream, "jpeg")
    return stream.getvalue()


@pytest.fixture
def no_room(monkeypatch):
    monkeypatch.setattr(_KeptBytes, "keep", lambda content: None)


def items(tmp_path, data):
    (tmp_path / "image.jpg").write_bytes(data)
    with tarfile.open(tmp_path / "images.tar", "w") as archive:
        archive.add(tmp_path / "image.jpg", "image.jpg")
    yield FileItem(str(tmp_path / "image.jpg"))
    yield BytesItem("image.jpg", data)
    yield OpenFileItem("image.jpg", io.BytesIO(data))
    yield from list_items(str(tmp_path / "images.tar"))


@pytest.mark.parametrize("room", [True, False])
def test_both_views_are_the_same_whichever_is_read_first(tmp_path, data, room, monkeypatch):
    if not room:
        monkeypatch.setattr(_KeptBytes, "keep", lambda content: None)
    expected = {}
    for first in (True, False):
        for item in items(tmp_path, data):
            views = read_views(item, None, REQUEST, small=first)
            other = views.other()
            assert views.sha256 == other.sha256 and other.reason is None
            for one in (views, other):
                (pixels,) = one.pixels
                assert pixels.shape == ((8, 8, 3) if one.small else (16, 16, 3))
                assert np.array_equal(expected.setdefault(one.small, pixels), pixels)


def test_what_has_no_small_view_is_read_once(data):
    small = io.BytesIO()
    Image.new("RGB", (16, 16)).save(small, "jpeg")
    views = read_views(BytesItem("image.jpg", small.getvalue()), None, REQUEST, small=True)
    assert views.pixels[0].shape == (16, 16, 3) and views.other is None
    whole = ViewRequest(size=16, resize_mode="stretch")
    assert read_views(BytesItem("image.jpg", data), None, whole, small=True).other is None


def test_kept_bytes_give_their_room_back(tmp_path, data):
    gc.collect()
    before = _KeptBytes._left
    (tmp_path / "image.jpg").write_bytes(data)
    views = read_views(FileItem(str(tmp_path / "image.jpg")), None, REQUEST, small=True)
    assert _KeptBytes._left == before - len(data)
    (tmp_path / "image.jpg").unlink()  # nobody needs it any more
    assert views.other().pixels[0].shape == (16, 16, 3)
    del views
    gc.collect()
    assert _KeptBytes._left == before


@pytest.mark.usefixtures("no_room")
def test_a_file_that_is_gone_or_changed_by_then_is_said_to_be(tmp_path, data):
    file = tmp_path / "image.jpg"
    file.write_bytes(data)
    views = read_views(FileItem(str(file)), None, REQUEST, small=True)
    file.write_bytes(data + b"more")
    changed = views.other()
    assert changed.reason == "the file has changed since it was first looked at" and not changed.pixels
    file.unlink()
    gone = views.other()
    assert gone.reason == "the file does not exist (any more)"
    assert gone.sha256 == changed.sha256 == views.sha256
