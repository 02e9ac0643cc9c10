"""Pictures show the matrix."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolsieve.designs import Pooling, balanced_design, plot_design, render_text


def dots_of(picture):
    """The dots of a braille picture, read from the Unicode definition of the characters."""
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    lines = picture.split("\n")
    dots = np.zeros((4 * len(lines), 2 * len(lines[0])), dtype=bool)
    for y, line in enumerate(lines):
        for x, character in enumerate(line):
            for bit, (down, across) in enumerate(places):
                dots[4 * y + down, 2 * x + across] = (ord(character) - 0x2800) >> bit & 1
    return dots


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_every_entry_is_a_dot_where_there_is_room(pools, images, seed):
    matrix = np.random.default_rng(seed).random((pools, images)) < 0.3
    dots = dots_of(render_text(Pooling(map(np.flatnonzero, matrix), images), width=20))
    assert (dots[:pools, :images] == matrix).all()
    assert dots.sum() == matrix.sum()


@pytest.mark.parametrize("size", [(1000, 8, 4), (100, 1, 9)], ids=["wide", "tall"])
@pytest.mark.parametrize("width", [1, 7, 40])
def test_a_large_matrix_is_drawn_coarser_and_fits(width, size):
    design = balanced_design(*size)
    lines = render_text(design, width).split("\n")
    assert all(len(line) <= width for line in lines)
    assert len(lines) <= max(1, width // 2)


def test_width_must_be_positive():
    with pytest.raises(ValueError, match="width=0"):
        render_text(balanced_design(12, 3, 2), 0)


@pytest.mark.parametrize("size", [(100, 8, 4), (5000, 8, 4)])
def test_the_plot_holds_the_matrix(size):
    design = balanced_design(*size)
    axes = plot_design(design)
    (image,) = axes.images
    cells = np.asarray(image.get_array())
    if size[0] <= 2000:
        assert (cells == design.dense()).all()
    assert max(cells.shape) <= 2000
    assert axes.get_xlabel() == "image"
    assert f"{design.pool_count} pools × {design.images} images" in axes.get_title()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'poolsieve\[plot\]'"):
        plot_design(balanced_design(12, 3, 2))
