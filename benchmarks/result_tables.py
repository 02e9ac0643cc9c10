"""Fills the tables of README.md and docs/ from benchmarks/results/*.json.

    python benchmarks/result_tables.py

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`; all else is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cluster_tables import cluster_figures
from result_files import RESULTS, read_result

from poolsieve.files import write_atomically

ROOT = Path(__file__).parents[1]
MEASURED = (ROOT / "README.md", ROOT / "docs" / "results.md")
"""Pages that state no other figures."""
PAGES = (*MEASURED, ROOT / "docs" / "serving.md", ROOT / "docs" / "scaling.md")
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
SERVICE = (
    ("throughput", "throughput_ratio", "images a second, as a share of the library's, saturated", "≥", 0.8),
    ("throughput", "cost_ratio", "cost, as a share of the library's, saturated", "≤", 1.05),
    ("load", "share_in_time", "requests answered within their deadline, at 70% load", "≥", 0.99),
    (
        "overload",
        "answers_other",
        "requests not answered with 200, 429 or 503, at three times the load",
        "≤",
        0,
    ),
    ("overload", "latest_seconds_after_deadline", "seconds of the latest answer after its deadline", "≤", 1),
    ("overload", "memory_ratio", "memory, as a share of that at 70% load", "≤", 1.2),
    (
        "overload",
        "share_in_time_afterwards",
        "answered within their deadline afterwards, at 50% load",
        "≥",
        0.99,
    ),
    (
        "slow",
        "p99_ratio",
        "99th percentile beside 500 slow clients, as a share of that without them",
        "≤",
        1.5,
    ),
    ("kills", "lost", "images of a job lost, its process killed 20 times", "≤", 0),
    ("kills", "twice", "and with two verdicts", "≤", 0),
)
"""Part, figure, what it is, and the bound that it must keep."""


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


_SPEEDS = (
    " Images/s: JPEGs of 2 megapixels, from files to verdicts, in int8; there "
    "[decoding takes half of the time](docs/results.md#time-on-photographs), whatever looks at them.\n"
)


def readme() -> str:
    """The table of the first page: no intervals, and images a second where they were measured."""
    rows = {row["method"]: row for row in read_result("shipped-firearms")["rows"]}
    speeds = speeds_of_photographs() if (RESULTS / "photographs-firearms.json").exists() else {}
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
        "of the firearms (95% interval)." + (_SPEEDS if speeds else "\n") + cars_in_short()
    )


def cars_in_short() -> str:
    """The second bundle in a sentence."""
    rows = {row["method"]: row for row in read_result("shipped-cars")["rows"]}
    planned, pooled = rows["auto"], rows["mip"]
    return (
        "\nWhere images are easier to tell, less is needed. With the bundle `cars`, which finds off-topic "
        f"images on a car forum, the default plan costs {share(planned['cost'])} and finds "
        f"{interval(planned, 'sensitivity')}; "
        f"the paper's pools cost {share(pooled['cost'])} and find {interval(pooled, 'sensitivity')}.\n"
    )


def speeds_of_photographs() -> dict[str, float]:
    """Images a second on JPEGs of 2 megapixels: median over rounds."""
    rows = read_result("photographs-firearms")["rows"]
    chosen = [row for row in rows if (row["kind"], row["megapixels"]) == ("jpeg", 2.0)]
    return {row["way"]: row["images_per_second"] for row in chosen}


def photographs() -> str:
    """Time of the default plan by format and size, for both bundles."""
    found = {name: read_result(f"photographs-{name}") for name in ("firearms", "cars")}
    rows = {
        (name, row["kind"], row["megapixels"], row["way"]): row
        for name, result in found.items()
        for row in result["rows"]
    }
    lines = []
    for name, kind, megapixels, way in rows:
        if way != "auto":
            continue
        auto, single, loop = (rows[name, kind, megapixels, one] for one in ("auto", "individual", LOOP))
        ratios = [f"{auto[key]:.2f}".removeprefix("0") for key in ("of_individual", "of_floor", "of_loop")]
        speeds = [f"{one['images_per_second']:.0f}" for one in (auto, single, loop)]
        size = f"{kind.upper()}, {megapixels:g} megapixels".replace(" 0.", " .")
        lines.append(f"| {name} | {size} | {share(auto['cost'])} | {' | '.join((*ratios, *speeds))} |")
    heading = (
        "| bundle | files | cost | of individual testing | of decoding alone | of the loop "
        "| images/s | individual | the loop |"
    )
    rounds = next(iter(rows.values()))["rounds"]
    return (
        f"{table(heading, lines)}\nThe default plan: cost, processor time as ratios, and images a second by "
        f"the clock with 2 processors; medians of {rounds} rounds, 1% bad. *The loop*: Pillow and ONNX "
        f"Runtime, batches of 8, fp32. `{found['firearms']['command']}`\n"
    )


def service() -> str:
    """The service beside the library and under load."""
    if not (RESULTS / "service.json").exists():
        return "`python benchmarks/service.py TABLE` compares it with the library, and loads it.\n"
    found = read_result("service")
    rows = {row["part"]: row for row in found["rows"]}
    lines = [
        f"| {words} (`{rows[part]['scheme']}`) | {sign} {bound:g} | {figure(rows[part][name])} |"
        for part, name, words, sign, bound in SERVICE
    ]
    load = rows["load"]
    return (
        f"{table('| | wanted | measured |', lines)}\nBundle {found['bundle']}, {load['images']:,} images of "
        f"which 1% are bad, deadlines of {load['deadline_seconds']:g} s, {load['processors']} processors "
        f"that clients share; its capacity was {load['capacity']:.0f} requests a second, each with one image "
        f"on a connection of its own. `{found['command']}`\n"
    )


def figure(value: float) -> str:
    """A count as it is, a measurement with three decimals."""
    return str(value) if isinstance(value, int) else f"{value:.3f}".replace("0.", ".", 1)


TABLES: dict[str, Callable[[], str]] = {
    "readme": readme,
    "shipped-firearms": lambda: shipped("firearms"),
    "shipped-cars": lambda: shipped("cars"),
    "photographs": photographs,
    "service": service,
    "cluster": cluster_figures,
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
