"""What every page keeps to, whatever it tells of."""

import html
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import poolsieve
from poolsieve.figures import new_figure
from poolsieve.pages import data_url, render, svg, templates
from poolsieve.shown_text import shown

PACKAGE = Path(poolsieve.__file__).parent
REPORTS = ("moderation.html", "evaluation.html")

any_text = st.text(st.characters(categories=None)) | st.text("<>&\"'\\\u202e\u200b\udcff\x1b\n")


@given(any_text)
def test_whatever_is_printed_is_escaped_and_shown(text):
    made = templates().from_string('<i title="{{ text }}">{{ text }}</i>').render(text=text)
    made.encode()
    inside = re.fullmatch('<i title="([^"<>]*)">([^"<>]*)</i>', made)
    assert [html.unescape(part) for part in inside.groups()] == [shown(text), shown(text)]


def test_what_is_no_text_is_escaped_too():
    class Odd:
        def __str__(self):
            return "<b>\u202e"

    made = templates().from_string(
        "{{ odd }} {{ 3 }}{% macro bold(x) %}<b>{{ x }}</b>{% endmacro %}{{ bold('&') }}"
    )
    assert made.render(odd=Odd()) == "&lt;b&gt;\\u202e 3<b>&amp;</b>"


def test_what_a_template_is_not_given_is_an_error_and_no_gap():
    with pytest.raises(jinja2.UndefinedError, match="run"):
        render("moderation.html")


@pytest.mark.parametrize("name", REPORTS)
def test_reports_share_one_frame_and_one_style(name):
    source, *_ = templates().loader.get_source(templates(), name)
    assert source.startswith('{% extends "base.html" %}')
    assert not re.search(r"<style|<link|<script|\|\s*safe|autoescape|https?:", source)


def test_a_page_fetches_and_runs_nothing_and_has_two_schemes_of_colour():
    text = render("base.html")
    assert "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"" in text
    assert "color-scheme: light dark" in text and "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|<link|url\(|@import|https?:", text)


def test_pictures_and_figures_are_part_of_a_page():
    assert data_url(Image.new("RGB", (4, 4))).startswith("data:image/jpeg;base64,/9j/")
    figure = new_figure(figsize=(2, 2))
    figure.text(0.5, 0.5, "a < b")
    made = templates().from_string("{{ figure | svg }}").render(figure=figure)
    assert made.startswith("<svg") and "a &lt; b" in made
    assert made == svg(figure)


def test_templates_go_into_the_wheel():
    settings = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    packed = settings["tool"]["setuptools"]["package-data"]["poolsieve"]
    files = [file for file in (PACKAGE / "pages").iterdir() if file.is_file() and file.suffix != ".py"]
    assert {file.name for file in files} >= {"base.html", "style.css", *REPORTS}
    for file in files:
        assert any(fnmatch(file.relative_to(PACKAGE).as_posix(), pattern) for pattern in packed), file
