"""Tables of the store as files of JSON lines or CSV, for other tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from sqlalchemy import select

from poolsieve.files import atomic_file
from poolsieve.store import schema
from poolsieve.store.schema import canonical
from poolsieve.store.store import Store

EXPORTED = {
    "verdicts": schema.verdicts,
    "decisions": schema.decisions,
    "audit": schema.audit,
    "chunks": schema.chunks,
    "jobs": schema.jobs,
    "settings": schema.settings,
}
"""What may leave; neither pictures nor hashes of keys and passwords are in it."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def rows_of(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table in the order of its key, one at a time.

    Raises:
        ValueError: It is none that is exported.
    """
    if table not in EXPORTED:
        raise ValueError(f"table {table!r}: there are {', '.join(EXPORTED)}")
    columns = EXPORTED[table]
    query = select(columns).order_by(*columns.primary_key)
    with store.database.reading() as connection:
        for row in connection.execution_options(yield_per=1000).execute(query).mappings():
            yield dict(row)


def export_table(store: Store, table: str, out: Path) -> int:
    """Write a table; the file appears whole or not at all. Returns the number of rows."""
    if out.suffix not in (".csv", ".jsonl"):
        raise ValueError(f"{out}: tables are written as .jsonl or .csv; choose one of these endings")
    rows = rows_of(store, table)
    with atomic_file(out) as stream:
        return (
            write_csv(rows, EXPORTED[table].c.keys(), stream)
            if out.suffix == ".csv"
            else _jsonl(rows, stream)
        )


def write_csv(rows: Iterator[dict[str, Any]], columns: list[str], stream: IO[bytes]) -> int:
    """Rows as CSV that a spreadsheet does not compute."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    number = 0
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
        number += 1
    text.flush()
    text.detach()
    return number


def _cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        value = canonical(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _jsonl(rows: Iterator[dict[str, Any]], stream: IO[bytes]) -> int:
    number = 0
    for row in rows:
        stream.write(canonical(row).encode() + b"\n")
        number += 1
    return number
