from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from poolsieve.images import ViewSettings, plain_view, random_view
from poolsieve.images.transforms import make_square
from poolsieve.view_settings import PAPER_POOLED

NOTHING = ViewSettings(flip=False, rotation=0, min_crop=1, colour=0, letterbox=0)


def noise(width, height, seed=0):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(1, 255, (height, width, 3), dtype=np.uint8))


def test_padding_centres_and_fills_with_zeros():
    square = np.asarray(make_square(Image.new("RGB", (40, 20), (200, 100, 50)), 80, "pad"))
    assert square.shape == (80, 80, 3)
    assert (square[20:60] == [200, 100, 50]).all()
    assert (square[:20] == 0).all()
    assert (square[60:] == 0).all()


def test_stretching_fills_the_square():
    square = np.asarray(make_square(Image.new("RGB", (40, 20), (200, 100, 50)), 80, "stretch"))
    assert (square == [200, 100, 50]).all()


def test_a_square_of_the_right_size_is_left_alone():
    image = noise(32, 32)
    assert (plain_view(image, 32) == np.asarray(image)).all()


@given(st.integers(1, 90), st.integers(1, 90))
def test_squares_look_the_same_padded_and_stretched(side, size):
    image = noise(side, side)
    assert (plain_view(image, size, "pad") == plain_view(image, size, "stretch")).all()


def test_unknown_resize_mode_names_what_exists():
    with pytest.raises(ValueError, match="'pad' or 'stretch'"):
        make_square(noise(8, 4), 8, "crop")


def test_views_without_changes_equal_the_plain_view():
    image = noise(48, 30)
    view = random_view(image, 32, np.random.default_rng(0), settings=NOTHING)
    assert (view == plain_view(image, 32)).all()


def test_flip_mirrors_about_half_of_the_views():
    image = noise(16, 16)
    plain = plain_view(image, 16)
    rng = np.random.default_rng(0)
    settings = replace(NOTHING, flip=True)
    mirrored = 0
    for _ in range(400):
        view = random_view(image, 16, rng, settings=settings)
        is_mirrored = (view == plain[:, ::-1]).all()
        assert is_mirrored or (view == plain).all()
        mirrored += is_mirrored
    assert 150 < mirrored < 250


def test_rotation_keeps_the_middle_and_stays_within_its_limit():
    """A bar through the middle shows the angle by which the view was turned."""
    pixels = np.zeros((101, 101, 3), dtype=np.uint8)
    pixels[49:52] = 255
    image = Image.fromarray(pixels)
    rng = np.random.default_rng(3)
    angles = []
    for _ in range(100):
        view = random_view(image, 101, rng, settings=PAPER_POOLED)[:, :, 0].astype(float)
        assert view[50, 50] > 200
        rows, columns = np.nonzero(view > 128)
        near = np.hypot(rows - 50, columns - 50) < 45
        slope = np.polyfit(columns[near] - 50, rows[near] - 50, 1)[0]
        angles.append(np.degrees(np.arctan(slope)))
    assert -31 < min(angles) < -20
    assert 20 < max(angles) < 31


def test_crops_enlarge_and_never_leave_the_image():
    image = Image.new("RGB", (64, 64), (200, 100, 50))
    settings = replace(NOTHING, min_crop=0.3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        view = random_view(image, 64, rng, settings=settings)
        assert (view[2:-2, 2:-2] == [200, 100, 50]).all()


def test_colour_changes_pixels_but_not_uncovered_corners():
    image = Image.new("RGB", (64, 64), (120, 120, 120))
    settings = replace(NOTHING, rotation=30, colour=0.4)
    rng = np.random.default_rng(0)
    middles = set()
    for _ in range(30):
        view = random_view(image, 64, rng, settings=settings)
        middles.add(int(view[32, 32, 0]))
        assert not view[0, 0].any() or view[0, 0, 0] == view[32, 32, 0]
    assert len(middles) > 10


def bars(view):
    """Rows and columns of one colour at the edges: (top, bottom, left, right)."""

    def at_the_start(lines):
        same = (lines == lines[0, 0]).all(axis=(1, 2))
        return len(same) if same.all() else int(same.argmin())

    turned = view.transpose(1, 0, 2)
    return tuple(at_the_start(lines) for lines in (view, view[::-1], turned, turned[::-1]))


def test_letterboxes_have_even_bars_on_two_sides_and_the_whole_picture_between():
    image, rng = noise(100, 100), np.random.default_rng(0)
    settings, black, upright = replace(NOTHING, letterbox=1), 0, 0
    for _ in range(200):
        view = random_view(image, 100, rng, settings=settings)
        top, bottom, left, right = bars(view)
        assert abs(top - bottom) <= 1
        assert abs(left - right) <= 1
        assert min(top, left) == 0
        assert top + bottom + left + right <= 60
        width, height = 100 - left - right, 100 - top - bottom
        picture = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        assert (view[top : top + height, left : left + width] == picture).all()
        black += not view[0, 0].any()
        upright += left > 0
    assert 70 < black < 130
    assert 70 < upright < 130


def test_letterboxes_are_a_share_of_the_views_and_change_no_other():
    image = noise(64, 64)
    without, with_some = np.random.default_rng(1), np.random.default_rng(1)
    changed = 0
    for _ in range(400):
        plain = random_view(image, 32, without, settings=ViewSettings(letterbox=0))
        changed += (plain != random_view(image, 32, with_some, settings=ViewSettings(letterbox=0.2))).any()
    assert 50 < changed < 110


def test_a_seed_gives_the_same_view():
    image = noise(40, 40)
    first, again = (random_view(image, 32, np.random.default_rng(5)) for _ in range(2))
    other = random_view(image, 32, np.random.default_rng(6))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("wrong", [{"rotation": -1}, {"min_crop": 0}, {"colour": 1}, {"letterbox": 1.1}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ViewSettings(**wrong)
