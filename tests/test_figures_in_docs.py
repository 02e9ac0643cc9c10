"""README.md and docs/results.md state no figure that a benchmark did not write."""

import re

import pytest
from result_files import RESULTS, read_result
from result_tables import BLOCK, PAGES, TABLES, filled

from poolsieve.bundles import load_bundle

FIGURE = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+(?:\.\d+)?\s?%|\d+(?:\.\d+)?\s?(?:ms|images/s))(?!\w)")
NOT_MEASURED = {"3.11", "2.0", "95%"}  # Python's version, a licence's, the level of all intervals


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_say_what_the_benchmarks_wrote(page):
    text = page.read_text()
    assert text.count("<!-- figures:") == len(BLOCK.findall(text)) > 0
    assert filled(text) == text, "run: python benchmarks/result_tables.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_figure_stands_outside_the_tables(page):
    prose = re.sub(r"```.*?```", "", BLOCK.sub("", page.read_text()), flags=re.S)
    assert set(FIGURE.findall(prose)) <= NOT_MEASURED


def test_every_table_stands_on_a_page():
    text = "".join(page.read_text() for page in PAGES)
    assert {name for _, name, *_ in BLOCK.findall(text)} == set(TABLES)


@pytest.mark.parametrize("file", sorted(RESULTS.glob("shipped-*.json")), ids=lambda file: file.stem)
def test_figures_are_of_the_bundle_that_is_shipped(file):
    found = read_result(file.stem)
    assert found["sha256"] == load_bundle(found["bundle"]).hash, f"run: {found['command']}"
