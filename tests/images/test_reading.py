import io
import os
import struct
import zlib

import hostile
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageOps

from poolsieve.images import UnreadableImage, decode_frames, decode_image, read_image
from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.reading import _in_one_scan


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


def corners(image):
    pixels = np.asarray(image).astype(int)
    return pixels[2, 2].tolist(), pixels[-3, -3].tolist()


@pytest.mark.parametrize("ending", ["jpeg", "png", "gif", "webp", "bmp"])
def test_every_format_of_the_list_is_read(photo, ending):
    left, right = corners(decode_image(encoded(photo, format=ending)))
    assert np.allclose(left, [255, 0, 0], atol=12)
    assert np.allclose(right, [0, 0, 255], atol=12)


@pytest.mark.parametrize("ending", ["tiff", "ppm", "ico", "pdf", "eps"])
def test_other_formats_are_refused(photo, ending):
    with pytest.raises(UnreadableImage, match="not a JPEG, PNG, WebP, GIF or BMP image"):
        decode_image(encoded(photo, format=ending))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1"])
def test_every_mode_becomes_rgb(photo, mode):
    image = decode_image(encoded(photo.convert(mode), format="png"))
    assert image.mode == "RGB"
    assert image.size == photo.size


def test_the_format_is_told_by_content_not_by_name(tmp_path, photo):
    file = tmp_path / "photo.txt"
    file.write_bytes(encoded(photo, format="png"))
    assert corners(read_image(file)) == ([255, 0, 0], [0, 0, 255])


def test_cmyk_keeps_its_colours(photo):
    left, right = corners(decode_image(encoded(photo.convert("CMYK"), format="jpeg", quality=95)))
    assert np.allclose(left, [255, 0, 0], atol=12)
    assert np.allclose(right, [0, 0, 255], atol=12)


def test_sixteen_bit_grey_is_scaled_not_clipped():
    values = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
    image = decode_image(encoded(Image.fromarray(values), format="png"))
    assert np.abs(np.asarray(image)[..., 0] - values / 257).max() <= 0.5


def test_sixteen_bit_colour_is_scaled():
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    row = b"\0" + struct.pack(">3H", 65535, 32768, 0) * 4
    header = struct.pack(">2I5B", 4, 4, 16, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * 4))
    pixels = np.asarray(decode_image(data + chunk(b"IEND", b"")))
    assert np.allclose(pixels.astype(int), [255, 128, 0], atol=1)


def test_colours_hidden_under_transparency_do_not_show():
    secret = np.zeros((8, 8, 4), dtype=np.uint8)
    secret[..., 0] = 255  # red, but fully transparent
    secret[:4, :, 3] = 255
    pixels = np.asarray(decode_image(encoded(Image.fromarray(secret), format="png")))
    assert (pixels[:4] == [255, 0, 0]).all()
    assert (pixels[4:] == [255, 255, 255]).all()


def test_half_transparent_pixels_are_blended_with_white():
    half = Image.new("RGBA", (4, 4), (0, 0, 0, 128))
    assert np.allclose(np.asarray(decode_image(encoded(half, format="webp", lossless=True))), 127, atol=1)


@pytest.mark.parametrize("ending", ["png", "gif"])
def test_transparent_palette_entries_do_not_show(ending):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    image.paste(2, (0, 0, 4, 8))
    pixels = np.asarray(decode_image(encoded(image, format=ending, transparency=1)))
    assert (pixels[:, :4] == [0, 255, 0]).all()
    assert (pixels[:, 4:] == [255, 255, 255]).all()


def test_transparent_sixteen_bit_grey_is_white():
    values = np.full((4, 4), 1000, dtype=np.uint16)
    values[:2] = 30000
    image = decode_image(encoded(Image.fromarray(values), format="png", transparency=1000))
    assert np.asarray(image)[:, 0, 0].tolist() == [117, 117, 255, 255]


@pytest.mark.parametrize("ending", ["gif", "webp", "png"])
def test_of_an_animation_the_first_frame_is_read(photo, ending):
    other = Image.new("RGB", photo.size, (0, 255, 0))
    data = encoded(photo, format=ending, save_all=True, append_images=[other, other], duration=100)
    left, right = corners(decode_image(data))
    assert np.allclose(left, [255, 0, 0], atol=12)
    assert np.allclose(right, [0, 0, 255], atol=12)


COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255), (0, 0, 0)]


def moving(ending, colours=COLOURS):
    frames = [Image.new("RGB", (16, 16), colour) for colour in colours]
    options = {"lossless": True} if ending == "webp" else {}
    return encoded(frames[0], format=ending, save_all=True, append_images=frames[1:], duration=100, **options)


def colours_of(images):
    return [tuple(np.asarray(image)[8, 8].tolist()) for image in images]


def test_the_hidden_image_of_an_apng_is_not_what_is_judged():
    frames = [Image.new("RGB", (16, 16), colour) for colour in COLOURS[1:]]
    data = hostile.apng(Image.new("RGB", (16, 16), COLOURS[0]), frames)
    assert colours_of([decode_image(data)]) == [COLOURS[1]]
    assert colours_of(decode_frames(data, frames=100)) == COLOURS[1:]
    assert colours_of(decode_frames(data, frames=2)) == [COLOURS[1], COLOURS[-1]]
    only = hostile.apng(Image.new("RGB", (16, 16), COLOURS[0]), frames[:1])
    assert colours_of([decode_image(only)]) == [COLOURS[1]]


def test_an_apng_that_ends_before_its_first_frame_is_unreadable():
    data = hostile.apng(Image.new("RGB", (16, 16)), [Image.new("RGB", (16, 16), "red")])
    without = data[: data.index(b"fcTL") - 4] + data[-12:]
    with pytest.raises(UnreadableImage, match="damaged or truncated"):
        decode_image(without)


@pytest.mark.parametrize("ending", ["gif", "webp", "png"])
@pytest.mark.parametrize(("count", "expected"), [(1, [0]), (2, [0, 6]), (3, [0, 3, 6]), (100, range(7))])
def test_frames_of_an_animation_are_evenly_spaced(ending, count, expected):
    found = decode_frames(moving(ending), frames=count)
    assert colours_of(found) == [COLOURS[k] for k in expected]


def test_an_image_that_does_not_move_has_one_frame(photo):
    for ending in ("jpeg", "png", "gif", "webp", "bmp"):
        assert len(decode_frames(encoded(photo, format=ending), frames=10)) == 1
    for wrong in (0, 101):
        with pytest.raises(ValueError, match=f"frames is {wrong}; give a number from 1 to 100"):
            decode_frames(encoded(photo, format="png"), frames=wrong)


def test_a_missing_frame_makes_an_animation_unreadable():
    data = moving("gif")
    with pytest.raises(UnreadableImage, match="damaged or truncated"):
        decode_frames(moving("png")[:-200], frames=100)
    assert len(decode_frames(data, frames=100)) == 7


def test_what_the_first_frame_of_a_gif_leaves_free_is_background():
    """As browsers show it; Pillow would fill it with the first colour of the palette."""
    image = Image.new("P", (16, 16), 1)
    image.putpalette([255, 0, 0, 0, 0, 255])
    data = bytearray(encoded(image, format="gif"))
    data[6:10] = struct.pack("<2H", 32, 32)  # a larger screen than the frame
    place = data.index(b"," + struct.pack("<4H", 0, 0, 16, 16))
    data[place + 1 : place + 5] = struct.pack("<2H", 8, 8)
    pixels = np.asarray(decode_image(bytes(data)))
    assert (pixels[8:24, 8:24] == [0, 0, 255]).all()
    assert (pixels[:8] == 255).all()
    assert (pixels[24:] == 255).all()


def test_whatever_a_decoder_raises_is_an_unreadable_image():
    with pytest.raises(UnreadableImage, match=r"damaged or truncated \(AssertionError\)"):
        decode_image(hostile.palette_png_without_palette())


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("size", [(40, 20), (4800, 2400)])
def test_every_orientation_is_as_pillow_turns_it(turn, size):
    """Large images are turned after they were reduced."""
    picture = Image.new("RGB", size, (0, 0, 255))
    picture.paste((255, 0, 0), (0, 0, size[0] // 4, size[1] // 4))
    exif = Image.Exif()
    exif[0x0112] = turn
    data = encoded(picture, format="png", exif=exif, compress_level=1)
    found = decode_image(data, at_least=10)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).resize(found.size, Image.Resampling.BOX)
    assert found.size[0] / found.size[1] == pytest.approx(expected.size[0] / expected.size[1], rel=0.01)
    assert np.abs(np.asarray(found).astype(int) - np.asarray(expected)).max() <= 1


@pytest.mark.parametrize("ending", ["png", "jpeg", "webp"])
def test_exif_orientation_is_applied(photo, ending):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its left side
    upright = decode_image(encoded(photo, format=ending, exif=exif))
    assert upright.size == (20, 40)
    top, bottom = np.asarray(upright)[2, 10], np.asarray(upright)[-3, 10]
    assert np.allclose(top.astype(int), [255, 0, 0], atol=12)
    assert np.allclose(bottom.astype(int), [0, 0, 255], atol=12)


def test_damaged_exif_does_not_hide_a_sound_image(photo):
    data = encoded(photo, format="jpeg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    assert decode_image(data).size == photo.size


def test_pixel_limit_is_checked_before_decoding(photo):
    with pytest.raises(UnreadableImage, match="40 x 20 pixels are more than the limit of 799"):
        decode_image(encoded(photo, format="png"), max_pixels=799)
    assert decode_image(encoded(photo, format="png"), max_pixels=800).size == (40, 20)


@pytest.mark.parametrize(("side", "ending"), [(50_000, "png"), (12_000, "png"), (50_000, "bmp")])
def test_a_huge_header_is_refused_without_decoding(side, ending):
    """The file is tiny; the image it claims would take up to 7.5 GB."""
    data = bytearray(encoded(Image.new("RGB", (1, 1)), format=ending))
    if ending == "png":
        header = b"IHDR" + struct.pack(">2I", side, side) + bytes(data[24:29])
        data[12:33] = header + struct.pack(">I", zlib.crc32(header))
    else:
        data[18:26] = struct.pack("<2i", side, side)
    with pytest.raises(UnreadableImage, match="pixels"):
        decode_image(bytes(data))


def test_byte_limit_is_checked_before_reading(tmp_path):
    file = tmp_path / "sparse.jpg"
    with file.open("wb") as stream:
        stream.truncate(2**40)  # a terabyte that takes no room
    with pytest.raises(UnreadableImage, match=r"1,099,511,627,776 bytes are more than the limit"):
        read_image(file)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(UnreadableImage, match="not a regular file"):
        read_image(tmp_path / "pipe.jpg")


def test_large_jpegs_are_decoded_smaller():
    smooth = np.linspace(0, 255, 1600)[None, :, None].repeat(1200, 0).repeat(3, 2).astype(np.uint8)
    data = encoded(Image.fromarray(smooth), format="jpeg", quality=95)
    drafted = decode_image(data, at_least=128)
    assert drafted.size == (200, 150)  # an eighth, the shorter side still above 128
    whole = decode_image(data).resize((128, 96), Image.Resampling.BILINEAR)
    small = drafted.resize((128, 96), Image.Resampling.BILINEAR)
    assert np.abs(np.asarray(whole).astype(int) - np.asarray(small)).max() <= 3
    assert decode_image(data, at_least=601).size == (1600, 1200)


@settings(deadline=None)
@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 120), st.sampled_from(["jpeg", "bmp"]))
def test_no_image_is_decoded_smaller_than_it_will_be_needed(width, height, at_least, ending):
    """Stretched to a square it needs both sides, and none is to be enlarged that was large enough."""
    data = encoded(Image.new("RGB", (width, height)), format=ending)
    decoded = decode_image(data, at_least=at_least)
    assert decoded.width >= min(width, at_least)
    assert decoded.height >= min(height, at_least)


def test_very_large_images_of_other_formats_are_reduced():
    data = encoded(Image.new("RGBA", (4000, 3000), (0, 0, 0, 128)), format="png", compress_level=1)
    reduced = decode_image(data, at_least=100)
    assert reduced.size == (4000 // 30 + 1, 100)
    assert np.allclose(np.asarray(reduced).astype(int), 127, atol=1)
    assert decode_image(data).size == (4000, 3000)


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
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize("ending", ["jpeg", "png", "gif", "webp", "bmp"])
def test_damaged_bytes_never_raise_anything_else(photo, ending):
    whole = encoded(photo, format=ending)
    rng = np.random.default_rng(1)
    for _ in range(100):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=4):
            damaged[place] = rng.integers(256)
        try:
            decode_image(bytes(damaged), at_least=4)
        except UnreadableImage as error:
            assert error.reason


@pytest.mark.parametrize(("data", "reason"), [(b"", "empty"), (b"not an image at all", "not a JPEG")])
def test_files_that_are_no_images(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        decode_image(data, "some.jpg")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "none.jpg")


def test_only_jpegs_that_may_have_many_scans_are_searched_for_them():
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8))
    thumbnail = hostile.encoded(photo, format="jpeg", progressive=True)
    exif = Image.Exif()
    exif[ExifTags.Base.ImageDescription] = "a thumbnail: " + thumbnail[:200].decode("latin-1")
    plain = hostile.encoded(photo, format="jpeg", exif=exif)
    assert _in_one_scan(plain)
    assert _in_one_scan(hostile.encoded(photo.convert("L"), format="jpeg"))
    for several in (thumbnail, hostile.jpeg_of_many_scans(5, 40), plain[:100], b"\xff\xd8", plain[:2] * 9):
        assert not _in_one_scan(several)


def test_further_scans_of_a_jpeg_in_one_scan_are_never_decoded():
    data = hostile.encoded(Image.new("RGB", (2000, 2000), (9, 9, 9)), format="jpeg")
    scan = data[data.index(b"\xff\xda") : -2]
    many = data[:-2] + scan * 1000 + data[-2:]
    with pytest.raises(UnreadableImage, match="damaged or truncated"):  # at the second, long before its limit
        shared_decoder().decode(many, at_least=8)
