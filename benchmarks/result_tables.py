"""Fills the tables of README.md and docs/results.md from benchmarks/results/*.json.

    python benchmarks/result_tables.py

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`; all else is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from result_files import RESULTS, read_result

from poolsieve.files import write_atomically

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end of figures -->)", re.S)
TITLES = {
    "individual": "every image individually",
    "auto": "**poolsieve, default plan**",
    "glance": "glance, then test",
    "cascade": "cascade",
    "dorfman": "Dorfman, pools of 8",
    "mip": "the paper's 50×100 pools + MIP",
    "bp": "50×100 pools + belief propagation",
    "adaptive": "adaptive pools",
}
WAYS = {name: name for name in TITLES} | {"mip": "oneshot"}
"""What photographs.py calls a method."""
LOOP = "Pillow + ONNX Runtime"


def share(value: float) -> str:
    """`.431`, and `1` for the whole."""
    return f"{value:.3f}".removeprefix("0") if value < 0.9995 else "1"


def interval(row: dict[str, Any], name: str) -> str:
    """`.959 (.937–.974)`."""
    return f"{share(row[name])} ({share(row[f'{name}_low'])}–{share(row[f'{name}_high'])})"


def table(heading: str, rows: Iterable[str]) -> str:
    """A Markdown table."""
    return "\n".join([heading, "|---" * (heading.count("|") - 1) + "|", *rows]) + "\n"


def shipped(bundle: str) -> str:
    """Every method with intervals."""
    found = read_result(f"shipped-{bundle}")
    rows = {row["method"]: row for row in found["rows"]}
    first = rows["individual"]
    lines = table(
        "| method | cost | sensitivity | specificity |",
        (
            f"| {title} | {share(rows[name]['cost'])} | {interval(rows[name], 'sensitivity')} "
            f"| {interval(rows[name], 'specificity')} |"
            for name, title in TITLES.items()
            if name in rows
        ),
    )
    return (
        f"{lines}\n{first['images']:,} draws from {first['distinct_bad']:,} bad and "
        f"{first['distinct_clear']:,} other test images, {first['prevalence']:.0%} bad. The default plan: "
        f"{rows['auto']['tuned']}. `{found['command']}`\n"
    )


def readme() -> str:
    """The table of the first page: no intervals, and images a second where they were measured."""
    rows = {row["method"]: row for row in read_result("shipped-firearms")["rows"]}
    speeds = speeds_of_photographs() if (RESULTS / "photographs.json").exists() else {}
    heading = "| | cost | sensitivity | specificity |" + (" images/s |" if speeds else "")
    lines = []
    if LOOP in speeds:
        lines.append(f"| a loop of Pillow and ONNX Runtime | 1 | – | – | {speeds[LOOP]:.0f} |")
    for name in ("individual", "auto", "cascade", "dorfman", "adaptive", "mip"):
        row = rows[name]
        cells = [TITLES[name], *(share(row[key]) for key in ("cost", "sensitivity", "specificity"))]
        if speeds:
            cells.append(f"{speeds[WAYS[name]]:.0f}" if WAYS[name] in speeds else "–")
        lines.append(f"| {' | '.join(cells)} |")
    first = rows["individual"]
    return (
        f"{table(heading, lines)}\n{first['images']:,} draws from {first['distinct_bad']:,} firearms and "
        f"{first['distinct_clear']:,} other test images. The default plan finds "
        f"{share(rows['auto']['sensitivity_low'])} to {share(rows['auto']['sensitivity_high'])} "
        "of the firearms (95% interval).\n"
    )


def speeds_of_photographs() -> dict[str, float]:
    """Images a second on JPEGs of 2 megapixels: median over rounds."""
    rows = [row for row in read_result("photographs")["rows"] if row["megapixels"] == 2.0]
    return {row["way"]: row["images_per_second"] for row in rows}


TABLES: dict[str, Callable[[], str]] = {
    "readme": readme,
    "shipped-firearms": lambda: shipped("firearms"),
    "shipped-cars": lambda: shipped("cars"),
}


def filled(text: str) -> str:
    """The page with its tables as the files say."""
    return BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + found[4], text)


def fill_pages() -> list[Path]:
    """Write the tables into all pages; gives those that changed."""
    changed = []
    for page in PAGES:
        old = page.read_text()
        if (new := filled(old)) != old:
            changed.append(write_atomically(page, new.encode()))
    return changed


if __name__ == "__main__":
    for changed_page in fill_pages():
        print(f"filled {changed_page}")
