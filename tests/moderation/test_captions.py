import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from poolsieve.moderation import captions
from poolsieve.moderation.captions import draw_caption, shorten

WIDTH = 160


def drawn(text, width=WIDTH):
    """The text that was drawn, and where there is ink.  # (height, width)"""
    picture = Image.new("L", (width + 40, 20), 255)
    return draw_caption(ImageDraw.Draw(picture), (0, 2), text, width, "black"), np.asarray(picture) < 255


@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_name_is_drawn_within_its_room(text):
    line, ink = drawn(text)
    assert line.isprintable()
    assert not ink[:, WIDTH + 3 :].any()  # the last letter may lean over


@pytest.mark.parametrize("name", ["Grüße.jpg", "Łódź.png", "фото.gif", "ελιά.webp", "תמונה.jpg", "plain.jpg"])
def test_letters_of_alphabets_are_drawn(name):
    line, ink = drawn(name)
    assert line == name
    assert ink.any()
    assert not np.array_equal(ink, drawn("?" * len(name))[1])


def test_letters_that_no_font_has_are_drawn_as_their_numbers(monkeypatch):
    monkeypatch.setattr(captions, "_OTHER_FONTS", ())
    assert drawn("a中.jpg")[0] == "a\\u4e2d.jpg"


def test_a_name_of_megabytes_is_a_short_caption():
    assert len(drawn("x" * 5_000_000 + ".jpg")[0]) < 40


def test_another_font_is_taken_if_it_has_more_letters(monkeypatch):
    """As where a system has Chinese letters: the first font here has none but ASCII."""
    rich = captions._matplotlib_font()
    monkeypatch.setattr(captions, "_OTHER_FONTS", (rich,))
    monkeypatch.setattr(captions, "_matplotlib_font", lambda: "no such font")
    assert drawn("ü.jpg")[0] == "ü.jpg"
    monkeypatch.setattr(captions, "_OTHER_FONTS", ())
    assert drawn("ü.jpg")[0] == "\\u00fc.jpg"


def test_a_pillow_without_freetype_draws_ascii_and_numbers(monkeypatch):
    monkeypatch.setattr(captions, "_fonts", lambda: iter([ImageFont.load_default_imagefont()]))
    line, ink = drawn("aü中\udcff.jpg", width=400)
    assert line == "a\\u00fc\\u4e2d\\xff.jpg"
    assert ink.any()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a\nb.jpg", "a\\nb.jpg"), ("\u202egpj.exe", "\\u202egpj.exe"), ("\udcff.jpg", "\\xff.jpg")],
)
def test_what_would_break_the_line_is_drawn_as_an_escape(name, expected):
    assert drawn(name)[0] == expected


@given(st.text(max_size=50), st.integers(3, 60))
def test_long_names_lose_their_middle_and_no_more_than_they_must(text, room):
    made = shorten(text, lambda line: len(line) <= room)
    assert len(made) <= room
    if len(text) <= room:
        assert made == text
    else:
        assert len(made) == room
        head, _, tail = made.partition("...") if "..." not in text else (made[: (room - 3) // 2], "", "")
        assert text.startswith(head) and text.endswith(tail)
