import io

import numpy as np
import pytest
from PIL import Image

from poolsieve.images import UnreadableImage, decode_image, read_image


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


@pytest.fixture
def photo():
    """Red left half, blue right half, wider than high."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:, :20, 0] = 255
    pixels[:, 20:, 2] = 255
    return Image.fromarray(pixels)


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_every_mode_becomes_rgb(photo, mode):
    ending = "tiff" if mode == "CMYK" else "png"
    image = decode_image(encoded(photo.convert(mode), format=ending))
    assert image.mode == "RGB"
    assert image.size == photo.size


def test_exif_orientation_is_applied(photo):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its left side
    upright = read_back = decode_image(encoded(photo, format="png", exif=exif))
    assert upright.size == (20, 40)
    top, bottom = np.asarray(read_back)[2, 10], np.asarray(read_back)[-3, 10]
    assert top.tolist() == [255, 0, 0]
    assert bottom.tolist() == [0, 0, 255]


def test_pixel_limit_is_checked_before_decoding(photo):
    with pytest.raises(UnreadableImage, match="40 x 20 pixels are more than the limit of 799"):
        decode_image(encoded(photo, format="png"), max_pixels=799)
    assert decode_image(encoded(photo, format="png"), max_pixels=800).size == (40, 20)


@pytest.mark.parametrize("ending", ["jpeg", "png", "gif", "webp", "bmp"])
def test_truncated_images_are_unreadable_and_named(tmp_path, ending):
    rng = np.random.default_rng(0)
    whole = encoded(Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)), format=ending)
    file = tmp_path / f"cut.{ending}"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableImage, match=f"cut.{ending}") as caught:
        read_image(file)
    assert caught.value.path == file
    assert caught.value.reason


def test_damaged_bytes_never_raise_anything_else(photo):
    whole = encoded(photo, format="png")
    rng = np.random.default_rng(1)
    for _ in range(200):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=4):
            damaged[place] = rng.integers(256)
        try:
            decode_image(bytes(damaged))
        except UnreadableImage as error:
            assert error.reason


@pytest.mark.parametrize(("data", "reason"), [(b"", "empty"), (b"not an image at all", "not an image")])
def test_files_that_are_no_images(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        decode_image(data, "some.jpg")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "none.jpg")
