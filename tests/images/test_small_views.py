"""JPEGs are decoded no larger than a network needs that shrinks them, and what it sees hardly changes."""

import io

import hostile
import numpy as np
import pytest
from PIL import ExifTags, Image

from poolsieve.images import UnreadableImage, plain_view, read_image
from poolsieve.images.guarded_decoding import GuardedDecoder, shared_decoder
from poolsieve.images.reading import open_image
from poolsieve.images.small_views import enlarged, read_both_views, small_scale

SIZE = 32


def photograph(width, height, seed=0):
    """Smooth shapes with some grain, as photographs have them."""
    rng = np.random.default_rng(seed)
    rough = Image.fromarray(rng.integers(0, 255, (3, 4, 3), dtype=np.uint8))
    smooth = np.asarray(rough.resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    grain = rng.normal(0, 5, (height, width, 1)).astype(np.int16)
    return Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8))


def jpeg(width=240, height=180, **options):
    return hostile.encoded(photograph(width, height), format="jpeg", quality=90, **options)


@pytest.mark.parametrize(
    ("size", "resize_mode", "scale"),
    [
        ((224, 224), "stretch", None),  # as the networks take them
        ((448, 448), "stretch", None),  # at a quarter the sides would be those of the small view
        ((4000, 3000), "stretch", None),  # an eighth is the least, and serves both
        ((300, 300), "stretch", 2),
        ((1000, 800), "stretch", 4),
        ((1600, 1200), "stretch", 8),
        ((1920, 1080), "stretch", 8),
        ((1600, 400), "stretch", 2),
        ((1600, 400), "pad", 8),
        ((100, 80), "pad", None),
    ],
)
def test_the_scale_depends_on_the_file_and_the_size(size, resize_mode, scale):
    for kept in (size, size[::-1]):
        image = open_image(hostile.encoded(Image.new("RGB", kept), format="jpeg"), "image")
        assert small_scale(image, 224, resize_mode, 2) == scale
        assert small_scale(image, 224, resize_mode, 1) is None


@pytest.mark.parametrize("ending", ["png", "webp", "gif", "bmp"])
def test_other_formats_have_one_view(ending):
    data = hostile.encoded(photograph(240, 180), format=ending)
    assert small_scale(open_image(data, "image"), SIZE, "stretch", 2) is None
    (whole,), (small,) = (
        shared_decoder().decode(data, at_least=SIZE, resize_mode="stretch", shrink=shrink)
        for shrink in (1, 2)
    )
    assert np.array_equal(whole, small)


@pytest.mark.parametrize("turned", range(1, 9))
@pytest.mark.parametrize("resize_mode", ["pad", "stretch"])
def test_a_small_view_is_the_mean_of_the_blocks_of_the_whole_one(tmp_path, turned, resize_mode):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = turned
    (tmp_path / "image.jpg").write_bytes(jpeg(exif=exif))
    whole, small = read_both_views(tmp_path / "image.jpg", SIZE, resize_mode, 2)
    assert np.array_equal(
        whole, plain_view(read_image(tmp_path / "image.jpg", at_least=SIZE), SIZE, resize_mode)
    )
    assert small.shape == whole.shape and not np.array_equal(small, whole)
    assert np.array_equal(small, enlarged(small[::2, ::2], SIZE))
    means = whole.reshape(SIZE // 2, 2, SIZE // 2, 2, 3).mean(axis=(1, 3))
    off = np.abs(means - small[::2, ::2]).mean()
    assert off < 5  # of 255
    wrongly_turned = [np.rot90(means), means[::-1], means[:, ::-1], means.transpose(1, 0, 2)]
    assert min(np.abs(other - small[::2, ::2]).mean() for other in wrongly_turned) > 20


@pytest.mark.parametrize("resize_mode", ["pad", "stretch"])
def test_the_guarded_decoder_gives_the_same_small_view(tmp_path, resize_mode):
    (tmp_path / "image.jpg").write_bytes(data := jpeg())
    (found,) = shared_decoder().decode(data, at_least=SIZE, resize_mode=resize_mode, shrink=2)
    assert found.shape == (SIZE // 2, SIZE // 2, 3)
    _, small = read_both_views(tmp_path / "image.jpg", SIZE, resize_mode, 2)
    assert np.array_equal(enlarged(found, SIZE), small)


def outcome(data, shrink):
    try:
        return [
            view.shape[0]
            for view in shared_decoder().decode(data, at_least=SIZE, resize_mode="stretch", shrink=shrink)
        ] and "sound"
    except UnreadableImage as error:
        return error.reason


@pytest.mark.parametrize("progressive", [False, True])
def test_damage_is_noticed_at_every_scale_or_at_none(progressive):
    data = jpeg(progressive=progressive)
    rng, outcomes = np.random.default_rng(1), set()
    cut = [data[:length] for length in np.linspace(0, len(data) - 1, 40).astype(int)]
    flipped = []
    for _ in range(80):
        damaged = bytearray(data)
        for place in rng.integers(2, len(data), 3):
            damaged[place] ^= 1 << int(rng.integers(8))
        flipped.append(bytes(damaged))
    for damaged in (*cut, *flipped):
        whole, small = outcome(damaged, 1), outcome(damaged, 2)
        assert small == whole
        outcomes.add(whole)
    assert "sound" in outcomes and len(outcomes) > 2


def test_what_would_take_too_much_memory_whole_is_refused_small():
    decoder = GuardedDecoder(memory_limit=6_700_000)  # 7.3 million for the whole view, 6.2 for the small one
    data = hostile.encoded(Image.new("RGB", (1600, 1200)), format="jpeg")
    reasons = []
    for shrink in (1, 2):
        with pytest.raises(UnreadableImage, match="more than the limit of 6,700,000") as caught:
            decoder.decode(data, at_least=224, resize_mode="stretch", shrink=shrink)
        reasons.append(caught.value.reason)
    decoder.close()
    assert reasons[0] == reasons[1]


def test_jpegs_with_another_image_behind_them_have_a_small_view():
    stream = io.BytesIO()
    photograph(240, 180).save(stream, "mpo", save_all=True, append_images=[photograph(240, 180, seed=1)])
    (small,) = shared_decoder().decode(stream.getvalue(), at_least=SIZE, resize_mode="stretch", shrink=2)
    assert small.shape == (SIZE // 2, SIZE // 2, 3)
