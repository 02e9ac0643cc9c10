import io
import zipfile

import pytest
from PIL import Image

from poolsieve.images.image_files import HEAD_BYTES, IMAGE_ENDINGS, seems_image
from poolsieve.images.sources import FileItem, read_content


def encoded(kind):
    stream = io.BytesIO()
    Image.new("RGB", (20, 20)).save(stream, format=kind)
    return stream.getvalue()


KINDS = ["jpeg", "png", "webp", "gif", "bmp", "tiff", "ico", "avif", "jpeg2000"]
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 40


def status(tmp_path, name, data, **options):
    (tmp_path / name).write_bytes(data)
    content = read_content(FileItem(str(tmp_path / name), **options), None, 8)
    return "image" if content.image else "not_image" if content.not_image else "error"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_image_under_any_name_is_an_error(tmp_path, kind):
    data = encoded(kind)
    for name in ("data.txt", "data", "archive.zip"):
        assert status(tmp_path, name, data[: len(data) // 3]) == "error"
        assert status(tmp_path, name, data[:12]) == "error"


@pytest.mark.parametrize("ending", [*IMAGE_ENDINGS, ".JPG", ".Png"])
def test_whatever_is_named_like_an_image_is_an_error(tmp_path, ending):
    assert status(tmp_path, f"x{ending}", b"text") == "error"
    assert status(tmp_path, f"x{ending}", b"") == "error"


@pytest.mark.parametrize(
    "data",
    [HEIC, HEIC.replace(b"heic", b"avif"), b"<?xml version='1.0'?>\n<svg xmlns=''/>", b"\xef\xbb\xbf<SVG/>"],
)
def test_images_of_kinds_that_are_not_read_are_errors(tmp_path, data):
    assert status(tmp_path, "upload.bin", data) == "error"


def archive():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("a.png", encoded("png"))
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"text", b"\0" * 100, b"%PDF-1.7", b"<html><svg/></html>", archive()),
        *(b"\0\0\0\x18ftypisom\0\0\0\0isommp42", b"RIFF\0\0\0\0WAVEfmt ", b"\xef\xbb\xbf\xe4\xbd\xa0"),
    ],
)
def test_other_files_are_no_images(tmp_path, data):
    assert status(tmp_path, "upload.bin", data) == "not_image"


def test_a_file_too_large_to_be_read_is_told_by_its_beginning(tmp_path):
    assert status(tmp_path, "film.mp4", b"x" * 5000, max_bytes=1000) == "not_image"
    assert status(tmp_path, "film.mp4", encoded("bmp") + b"x" * 5000, max_bytes=1000) == "error"
    assert status(tmp_path, "photo.jpg", b"x" * 5000, max_bytes=1000) == "error"
    content = read_content(FileItem(str(tmp_path / "gone")), None, 8)
    assert (content.not_image, content.reason) == (False, "the file does not exist (any more)")


def test_every_image_that_is_read_begins_like_one():
    for kind in KINDS:
        assert seems_image("x", encoded(kind)[:HEAD_BYTES])
