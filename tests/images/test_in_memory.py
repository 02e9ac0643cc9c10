"""Images in memory are read like the files that they could have been."""

import hashlib
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from poolsieve.images.in_memory import held_item
from poolsieve.images.reading import UnreadableImage, convert_image, decode_image
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import FileItem, image_item, list_items, read_content

SIZE = (40, 24)


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def photo():
    values = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def transparent_palette():
    image = Image.new("P", SIZE, 1)
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    image.paste(2, (0, 0, 4, 8))
    return encoded(image, format="gif", transparency=1)


def wide_grey():
    values = np.linspace(0, 65535, SIZE[0] * SIZE[1]).reshape(SIZE[::-1]).astype(np.uint16)
    return encoded(Image.fromarray(values), format="png")


FILES = {
    "plain": lambda: encoded(photo(), format="png"),
    "turned JPEG": lambda: encoded(photo(), format="jpeg", exif=turned()),
    "turned PNG": lambda: encoded(photo(), format="png", exif=turned()),
    "transparent": lambda: encoded(Image.new("RGBA", SIZE, (200, 0, 0, 100)), format="webp", lossless=True),
    "transparent palette": transparent_palette,
    "16 bits": wide_grey,
    "CMYK": lambda: encoded(photo().convert("CMYK"), format="jpeg"),
    "two in one": lambda: encoded(photo(), format="mpo", save_all=True, append_images=[photo()]),
    "bitmap": lambda: encoded(photo(), format="bmp"),
}


def loaded(image):
    image.load()
    return image


KINDS = {
    "bytes": lambda data: data,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "open file": io.BytesIO,
    "opened by Pillow": lambda data: Image.open(io.BytesIO(data)),
    "loaded by Pillow": lambda data: loaded(Image.open(io.BytesIO(data))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", FILES)
def test_every_kind_is_read_as_the_file_is(tmp_path, file, kind):
    data = FILES[file]()
    (tmp_path / "image").write_bytes(data)
    expected = read_content(FileItem(str(tmp_path / "image")), None, SIZE[0])
    for source in (KINDS[kind](data), [KINDS[kind](data)], iter([KINDS[kind](data)])):
        (found,) = read_ahead(
            list_items(source), lambda item, data: read_content(item, data, SIZE[0]), threads=1, ahead=1
        )
        assert np.array_equal(found.image, expected.image)
        assert found.image.mode == "RGB"
        if kind.endswith("Pillow"):
            assert found.sha256 == hashlib.sha256(np.asarray(expected.image)).hexdigest()
        else:
            assert found.sha256 == expected.sha256 == hashlib.sha256(data).hexdigest()


def test_an_image_of_pillow_s_stays_as_it_was():
    image = Image.open(io.BytesIO(FILES["turned JPEG"]()))
    assert convert_image(image).size == SIZE[::-1]
    assert (image.size, image.getexif()[0x0112]) == (SIZE, 6)


def test_an_array_and_its_image_have_the_same_hash():
    pixels = np.asarray(photo())
    by_array, by_image = (read_content(image_item(x), None, 8) for x in (pixels, photo()))
    assert by_array.sha256 == by_image.sha256 == hashlib.sha256(pixels.tobytes()).hexdigest()
    upside_down = read_content(image_item(pixels[::-1]), None, 8)
    assert np.array_equal(upside_down.image, pixels[::-1])


def test_what_pillow_opened_from_a_format_that_is_not_read_is_refused_undecoded():
    opened = Image.open(io.BytesIO(encoded(photo(), format="tiff")))
    with pytest.raises(UnreadableImage, match=r"opened from TIFF, not from a JPEG, .*; give a copy\(\)"):
        convert_image(opened)
    assert opened.tile  # which would be empty if it had been decoded
    assert np.array_equal(convert_image(opened.copy()), photo())


def test_no_pixels_a_damaged_and_a_closed_image_are_refused():
    cut = Image.open(io.BytesIO(FILES["plain"]()[:-500]))
    closed = photo()
    closed.close()
    for image, reason in ((Image.new("RGB", (0, 3)), "0 x 3"), (cut, "truncated"), (closed, "closed")):
        content = read_content(image_item(image), None, 8)
        assert content.image is None
        assert reason in content.reason


def test_the_limit_of_pixels_holds_before_anything_is_decoded_or_copied():
    data = bytearray(encoded(Image.new("RGB", (1, 1)), format="png"))
    header = b"IHDR" + struct.pack(">2I", 12_000, 12_000) + bytes(data[24:29])
    data[12:33] = header + struct.pack(">I", zlib.crc32(header))
    endless = np.broadcast_to(np.uint8(0), (12_000, 12_000, 3))
    for image in (Image.open(io.BytesIO(data)), endless, bytes(data)):
        content = read_content(image_item(image), None, 8)
        assert content.reason == "12000 x 12000 pixels are more than the limit of 100,000,000"
    with pytest.raises(UnreadableImage, match="40 x 24 pixels are more than the limit of 959"):
        convert_image(photo(), max_pixels=959)


class Endless(io.RawIOBase):
    """A file without an end, which counts what was asked of it."""

    asked = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.asked += len(buffer)
        buffer[:] = bytes(len(buffer))
        return len(buffer)


def test_the_limit_of_bytes_holds_before_more_is_read():
    endless = Endless()
    item = held_item(endless, 0, max_bytes=3_000_000)
    assert read_content(item, None, 8).reason == "has more bytes than the limit of 3,000,000"
    assert endless.asked <= 3_000_001
    small = held_item(bytes(1001), 0, max_bytes=1000)
    assert read_content(small, None, 8).reason == "1,001 bytes are more than the limit of 1,000"
    data = FILES["plain"]()
    assert read_content(held_item(io.BytesIO(data), 0, max_bytes=len(data)), None, 8).image is not None


class Giving:
    """Something to read from, whose answers come in a row; an exception is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def read(self, size=-1):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class LostConnectionError(Exception):
    pass


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([b"\x89PNG", LostConnectionError("the line is dead")], "cannot be read: the line is dead"),
        ([LostConnectionError()], "cannot be read: LostConnectionError"),
        ([None], "read() gave NoneType in place of bytes"),
        (["text"], "read() gave str in place of bytes"),
        ([b""], "the file is empty"),
        ([b"a letter", b""], "not a JPEG, PNG, WebP, GIF or BMP image"),
    ],
)
def test_a_file_that_cannot_be_read_has_its_reason(answers, reason):
    assert read_content(image_item(Giving(*answers)), None, 8).reason == reason


def test_short_reads_are_put_together():
    data = FILES["plain"]()
    pieces = [data[k : k + 7] for k in range(0, len(data), 7)]
    assert np.array_equal(read_content(image_item(Giving(*pieces, b"")), None, 8).image, decode_image(data))


def test_closed_files_and_files_of_text():
    closed = io.BytesIO(b"x")
    closed.close()
    assert "closed file" in read_content(image_item(closed), None, 8).reason
    with pytest.raises(TypeError, match="image 0 is a file that is open for text; open it with mode 'rb'"):
        image_item(io.StringIO("x"))


def test_names(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(FILES["plain"]())
    images = [b"x", io.BytesIO(), photo(), np.asarray(photo()), path.open("rb"), Image.open(path), path]
    names = ["bytes[0]", "file[1]", "image[2]", "array[3]", *[str(path)] * 3]
    assert [item.name for item in list_items(images)] == names
    assert [image_item(image, name="upload 7").name for image in images[:-1]] == ["upload 7"] * 6
    with pytest.raises(ValueError, match=r"a\.png' is named by its path; leave out name='upload 7'"):
        image_item(path, name="upload 7")


def test_a_generator_may_use_its_memory_again_and_close_its_files(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(FILES["plain"]())
    grey = range(0, 250, 10)

    def frames():
        frame, data = np.empty((8, 8, 3), dtype=np.uint8), bytearray(encoded(photo(), format="bmp"))
        canvas = Image.new("RGB", (8, 8))
        for value in grey:
            frame[:] = value
            yield frame
            canvas.paste((value, value, value), (0, 0, 8, 8))
            yield canvas
            data[-20:] = bytes([value]) * 20
            yield data
            with path.open("rb") as file:
                yield file
            with Image.open(path) as opened:
                yield opened

    found = list(
        read_ahead(list_items(frames()), lambda item, data: read_content(item, data, 8), threads=2, ahead=100)
    )
    assert [content.reason for content in found] == [None] * 5 * len(grey)
    for k, value in enumerate(grey):
        assert np.asarray(found[5 * k].image).max() == np.asarray(found[5 * k + 1].image).max() == value
    assert len({content.sha256 for content in found[2::5]}) == len(grey)
