"""Pages state no figure that a benchmark did not write, and the service's keep their bounds."""

import re

import pytest
from result_files import RESULTS, read_result
from result_tables import BLOCK, MEASURED, PAGES, ROOT, SERVICE, TABLES, filled

from poolsieve.bundles import load_bundle

FIGURE = re.compile(r"(?<![\w.])(?:\d*\.\d+|\d+(?:\.\d+)?\s?%|\d+(?:\.\d+)?\s?(?:ms|images/s))(?!\w)")
NOT_MEASURED = {"3.11", "2.0", "95%"}  # Python's version, a licence's, the level of all intervals
GUIDES = sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "results.md"})
DEFAULTS = {".001", ".005", ".01", ".1", ".2", ".5", ".6", ".8", "1.92", "1.1"}
SHARES = {"1%", "3%", "9%", "10%", "15%", "27%", "80%", "90%", "3 %"}
OF_THE_PAPER = {"1.2", ".22", ".78", ".61"}
SETTINGS = DEFAULTS | SHARES | OF_THE_PAPER
"""What guides may state: defaults, limits and the paper's own figures."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_say_what_the_benchmarks_wrote(page):
    text = page.read_text()
    assert text.count("<!-- figures:") == len(BLOCK.findall(text)) > 0
    assert filled(text) == text, "run: python benchmarks/result_tables.py"


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.name)
def test_no_figure_stands_outside_the_tables(page):
    prose = re.sub(r"```.*?```", "", BLOCK.sub("", page.read_text()), flags=re.S)
    assert set(FIGURE.findall(prose)) <= NOT_MEASURED


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_state_settings_and_no_measurements(page):
    prose = re.sub(r"```.*?```|`[^`]*`", "", BLOCK.sub("", page.read_text()), flags=re.S)
    found = set(FIGURE.findall(prose)) - NOT_MEASURED - SETTINGS
    assert not found, "what was measured stands in docs/results.md or experiments/; settings are listed here"


def test_every_table_stands_on_a_page():
    text = "".join(page.read_text() for page in PAGES)
    assert {name for _, name, *_ in BLOCK.findall(text)} == set(TABLES)


@pytest.mark.parametrize("file", sorted(RESULTS.glob("shipped-*.json")), ids=lambda file: file.stem)
def test_figures_are_of_the_bundle_that_is_shipped(file):
    found = read_result(file.stem)
    assert found["sha256"] == load_bundle(found["bundle"]).hash, f"run: {found['command']}"


@pytest.mark.skipif(not (RESULTS / "service.json").exists(), reason="no run of benchmarks/service.py is kept")
def test_the_service_keeps_its_bounds_in_one_state_of_the_code():
    rows = {row["part"]: row for row in read_result("service")["rows"]}
    for part, name, words, sign, bound in SERVICE:
        value = rows[part][name]
        assert value >= bound if sign == "≥" else value <= bound, f"{words}: {value}"
    assert len({row["code"] for row in rows.values()}) == 1, "run all parts again"
    assert (rows["kills"]["kills"], rows["kills"]["state"]) == (20, "done")
    assert rows["slow"]["dropped"] >= 500
