"""The figures of docs/scaling.md, from benchmarks/results/cluster.json; see `result_tables`."""

from __future__ import annotations

from typing import Any

from result_files import read_result

CURVE = 8
"""Points of the curve that are shown."""
WAYS = ("local, 1", "local, 2", "ray, 1", "ray, 2")
Rows = list[dict[str, Any]]


def cluster_figures() -> str:
    """What was measured of runs in parts, one section for each measurement that there is."""
    rows: Rows = read_result("cluster")["rows"]
    made = []
    for what, (title, show) in _SECTIONS.items():
        found = [row for row in rows if row["what"].partition(",")[0] == what]
        if found:
            commands = ", ".join(f"`{command}`" for command in dict.fromkeys(row["command"] for row in found))
            made.append(f"**{title}** {commands}\n\n{show(found)}\n")
    return "\n".join(made)


def _table(heading: str, lines: list[str]) -> str:
    return "\n".join([heading, "|---" * (heading.count("|") - 1) + "|", *lines])


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def _same_tables(rows: Rows) -> str:
    lines = [
        f"| {row['scheme']} | {row['images']:,} | {row['flagged']:,} | {row['plans']} "
        + "".join(f"| {_yes(row[way])} " for way in WAYS)
        + f"| {'by other plans' if row['scheme'] == 'auto' else _yes(row['plain'])} |"
        for row in rows
    ]
    ways = " | ".join(WAYS)
    return _table(f"| scheme | images | flagged | plans | {ways} | plain `moderate` |", lines)


def _overhead(rows: Rows) -> str:
    lines = [
        f"| {row['way']} | {', '.join(f'{one:.2f}' for one in row['segment_seconds'])} | {row['ratio']:.3f} |"
        for row in rows
    ]
    first = rows[0]
    told = (
        f"{first['images']:,} images on {first['processors']} processors, load {first['load']:g} at the end."
    )
    return f"{_table('| | seconds of a segment, each round | best, to plain |', lines)}\n\n{told}"


def _kills(rows: Rows) -> str:
    lines = [
        f"| {row['on']} | {row['segments']} | {row['kills_of_worker']}, {row['kills_of_driver']}, "
        f"{row['kills_of_both']} | {row['starts']}, {row['failed_starts']} | {_yes(row['same_table'])} "
        f"| {row['written_twice']} | {row['judged_again']} | {row['most_by_a_worker']} |"
        for row in rows
    ]
    return _table(
        "| two workers | segments | kills: worker, driver, both | starts, failed | same table "
        "| parts written twice | segments judged again | at most of one worker |",
        lines,
    )


def _keys(rows: Rows) -> str:
    step = max(1, -(-len(rows) // CURVE))
    shown = [*rows[:-1:step], rows[-1]]
    lines = [
        f"| {row['images']:,} | {row['driver_mb']} | {', '.join(map(str, row['workers_mb'])) or '–'} "
        f"| {row['images_per_second']} |"
        for row in shown
    ]
    keys = f"Of {rows[-1]['keys']:,} keys. {'All are judged.' if rows[-1]['finished'] else 'Stopped there.'}"
    return f"{_table('| judged | MB of the driver | MB of workers | images/s |', lines)}\n\n{keys}"


_SECTIONS = {
    "tables": ("The same tables.", _same_tables),
    "overhead": ("Time beside a plain run, start-up apart.", _overhead),
    "kills": ("Kills at random moments.", _kills),
    "keys": ("Memory against images.", _keys),
}
