"""Tables that name images: CSV and JSONL, on disk or in an object store, read line by line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from poolsieve.images.locations import Location, is_remote

PATH_COLUMNS = ("file", "path", "image", "filename")
"""Columns that hold the paths of a table, unless another one is named; the first that is there."""
TABLE_ENDINGS = (".csv", ".jsonl", ".ndjson")
_MAX_LINE = 1_000_000
"""Characters of a line in a JSONL file."""


def table_paths(table: str, column: str | None) -> Iterator[str]:
    """The paths in a column of a CSV or JSONL file, relative to where it lies unless they are whole.

    By default the column is the first of `PATH_COLUMNS`. Raises ValueError if it is not there, or if the file
    is no such table.
    """
    rows = csv_paths if table.lower().endswith(".csv") else jsonl_paths
    if is_remote(table):
        folder = table.rpartition("/")[0]
        return (path if not path or is_remote(path) else f"{folder}/{path}" for path in rows(table, column))
    here = Path(table).parent
    return (path if is_remote(path) else str(here / path) for path in rows(table, column))


def csv_paths(table: str, column: str | None) -> Iterator[str]:
    """The paths in a CSV file, as they stand there."""
    with _opened(table) as stream:
        reader = csv.DictReader(stream)
        try:
            name = _path_column(table, reader.fieldnames or (), column)
            for row in reader:
                yield row[name] or ""
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{table}, after line {reader.line_num}: not a CSV table in UTF-8 ({error})"
            ) from None


def jsonl_paths(table: str, column: str | None) -> Iterator[str]:
    """The paths in a JSONL file, as they stand there."""
    with _opened(table) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_MAX_LINE), ""), 1):
            if not line.strip():
                continue
            if len(line) == _MAX_LINE:
                raise ValueError(f"{table}, line {number}: longer than {_MAX_LINE:,} characters")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{table}, line {number}: not JSON ({error})") from None
            if not isinstance(record, dict):
                raise ValueError(f"{table}, line {number}: not an object with a path in it")
            path = record[_path_column(table, tuple(record), column)]
            if not isinstance(path, str):
                raise ValueError(f"{table}, line {number}: the path is {path!r}, not a text")
            yield path


@contextmanager
def _opened(table: str) -> Iterator[IO[str]]:
    stream, _ = Location(table).open_from_start()
    # Lines end at what ends them in the file: the reader of CSV wants it so, and JSON does not mind.
    with stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        yield text


def _path_column(table: str, columns: Sequence[str], wanted: str | None) -> str:
    names = PATH_COLUMNS if wanted is None else (wanted,)
    for name in names:
        if name in columns:
            return name
    there = ", ".join(map(repr, columns)) or "none"
    raise ValueError(
        f"{table} has no column {' or '.join(map(repr, names))}; it has {there}. "
        "Name the column of the paths with --column"
    )
