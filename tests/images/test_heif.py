"""HEIC and AVIF: with the extra like every other image, without it an error that names the extra."""

import io
import subprocess
import sys

import hostile
import numpy as np
import pytest
from PIL import Image, features

from poolsieve.images import UnreadableImage, decode_frames, decode_image
from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.heif import heif_format

pillow_heif = pytest.importorskip("pillow_heif", reason="the extra heif is not installed")
if not features.check("avif"):
    pytest.skip("this build of Pillow has no AVIF", allow_module_level=True)


def encoded(image, ending, **options):
    pillow_heif.register_heif_opener()
    return hostile.encoded(image, format=ending, **options)


@pytest.fixture
def photo():
    """Red left half, blue right half, wider than high."""
    pixels = np.zeros((64, 128, 3), dtype=np.uint8)
    pixels[:, :64, 0] = 255
    pixels[:, 64:, 2] = 255
    return Image.fromarray(pixels)


def close(pixels, colour):
    return np.allclose(pixels.astype(int), colour, atol=16)


@pytest.mark.parametrize("ending", ["heif", "avif"])
@pytest.mark.parametrize("guarded", [False, True])
def test_it_is_read_by_its_content(photo, ending, guarded):
    data = encoded(photo, ending, quality=95)
    found = shared_decoder().decode(data, at_least=8)[0] if guarded else np.asarray(decode_image(data))
    if guarded:  # it is not started anew for each
        before = shared_decoder().process_ids()
        shared_decoder().decode(data, at_least=8)
        assert shared_decoder().process_ids() == before
    assert found.shape == (64, 128, 3)
    assert close(found[32, 8], [255, 0, 0])
    assert close(found[32, 120], [0, 0, 255])


@pytest.mark.parametrize("ending", ["heif", "avif"])
@pytest.mark.parametrize("turn", [3, 6, 8])
def test_it_is_turned_upright_once(photo, ending, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    found = np.asarray(decode_image(encoded(photo, ending, exif=exif.tobytes(), quality=95)))
    first, last = {3: ((8, 8), (-8, -8)), 6: ((8, 8), (-8, 8)), 8: ((-8, 8), (8, 8))}[turn]
    red, blue = (last, first) if turn == 3 else (first, last)
    assert found.shape == ((64, 128, 3) if turn == 3 else (128, 64, 3))
    assert close(found[red], [255, 0, 0])
    assert close(found[blue], [0, 0, 255])


def test_the_image_is_judged_and_not_a_thumbnail_in_it(photo):
    other = Image.new("RGB", (2560, 1280), (0, 255, 0))
    image = pillow_heif.from_pillow(other)
    stream = io.BytesIO()
    image.save(stream, quality=90, thumbnails=[512])
    data = stream.getvalue()
    assert close(np.asarray(decode_image(data, at_least=64))[5, 5], [0, 255, 0])
    assert decode_image(data, at_least=64).size == (2560, 1280)


@pytest.mark.parametrize("ending", ["heif", "avif"])
def test_the_same_limits_hold(photo, ending):
    data = encoded(photo, ending)
    with pytest.raises(UnreadableImage, match="128 x 64 pixels are more than the limit of 8,000"):
        decode_image(data, max_pixels=8000)
    for length in (20, len(data) // 2, len(data) - 20):
        with pytest.raises(UnreadableImage, match="damaged or truncated"):
            decode_image(data[:length])


def test_frames_of_an_avif_sequence():
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    frames = [Image.new("RGB", (64, 64), colour) for colour in colours]
    data = encoded(frames[0], "avif", save_all=True, append_images=frames[1:], quality=95)
    assert close(np.asarray(decode_image(data))[32, 32], colours[0])
    found = decode_frames(data, frames=2)
    assert [close(np.asarray(frame)[32, 32], colours[k]) for k, frame in zip((0, 2), found, strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize("ending", ["heif", "avif"])
def test_without_the_extra_it_is_an_error_that_names_it(photo, ending, tmp_path):
    file = tmp_path / "phone.jpg"
    file.write_bytes(encoded(photo, ending))
    script = (
        "import sys; sys.modules['pillow_heif'] = None\n"
        "from poolsieve.images import UnreadableImage, read_image\n"
        "try: read_image(sys.argv[1])\n"
        "except UnreadableImage as error: print(error.reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True)
    assert "HEIC and AVIF images need an extra: pip install 'poolsieve[heif]'" in done.stdout, done.stderr


def ftyp(major, *others):
    body = b"ftyp" + major + bytes(4) + b"".join(others)
    return (len(body) + 4).to_bytes(4, "big") + body + b"the rest"


def test_brands():
    assert heif_format(ftyp(b"heic", b"mif1")) == "HEIF"
    assert heif_format(ftyp(b"mif1", b"heic")) == heif_format(ftyp(b"msf1", b"hevc")) == "HEIF"
    assert heif_format(ftyp(b"avif", b"mif1")) == heif_format(ftyp(b"mif1", b"avif")) == "AVIF"
    assert heif_format(ftyp(b"avis")) == "AVIF"
    assert heif_format(ftyp(b"mp42", b"isom")) is None
    assert heif_format(ftyp(b"isom", b"mif1")) is None
    assert heif_format(b"\xff\xff\xff\xffftypmif1") == "HEIF"
    for data in (b"", b"ftyp", b"\0\0\0\x08ftyp", b"\xff\xd8\xff\xe0"):
        assert heif_format(data) is None
