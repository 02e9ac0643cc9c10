"""What a job is made of: a table of files on the server, or an archive that was uploaded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolsieve.images.path_tables import PATH_COLUMNS
from poolsieve.images.sources import Item, list_items
from poolsieve.serving.errors import Refused
from poolsieve.serving.places import Prefixes

ARCHIVE_TYPES = (
    "application/zip",
    "application/x-tar",
    "application/gzip",
    "application/x-gtar",
    "application/x-xz",
)
TABLE_TYPES = ("text/csv", "application/x-ndjson", "application/jsonl")
_MAX_LINE = 1_000_000


@dataclass(frozen=True)
class JobSource:
    """Where a job's images are.

    Attributes:
        items: Name of each image, and where it is.
        archive: The uploaded archive; None for a table.
    """

    items: list[tuple[str, dict[str, Any]]]
    archive: Path | None = None


def table_source(text: str, kind: str, prefixes: Prefixes, most: int) -> JobSource:
    """The files of a CSV or JSONL table.

    Args:
        text: The table.
        kind: "csv" or "jsonl".
        prefixes: Where files may be.
        most: Images of a job.

    Raises:
        Refused: It is no table, or names files elsewhere.
    """
    paths = _csv_paths(text) if kind == "csv" else _jsonl_paths(text)
    return paths_source(paths, prefixes, most)


def paths_source(paths: Any, prefixes: Prefixes, most: int) -> JobSource:
    """The files that are named.

    Raises:
        Refused: One lies elsewhere, or there are too many.
    """
    items: list[tuple[str, dict[str, Any]]] = []
    for number, path in enumerate(paths):
        if len(items) >= most:
            raise Refused(413, "too_large", f"a job has at most {most:,} images; make several")
        if not isinstance(path, str):
            raise Refused(422, "bad_request", f"entry {number} of the manifest is no path")
        try:
            prefixes.resolve(path)
        except Refused as error:
            raise Refused(error.status, error.code, f"entry {number}: {error.message}") from None
        items.append((path, {"path": path}))
    return JobSource(items)


def _csv_paths(text: str) -> Iterator[str]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    try:
        columns = reader.fieldnames or ()
        name = next((column for column in PATH_COLUMNS if column in columns), None)
        if name is None:
            raise Refused(422, "bad_request", f"the table needs a column {', '.join(PATH_COLUMNS)}")
        for row in reader:
            yield row[name] or ""
    except csv.Error as error:
        raise Refused(422, "bad_request", f"after line {reader.line_num}: no CSV ({error})") from None


def _jsonl_paths(text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            if len(line) > _MAX_LINE:
                raise ValueError
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise Refused(422, "bad_request", f"line {number} is no JSON") from None
        if isinstance(value, dict):
            value = next((value[column] for column in PATH_COLUMNS if column in value), None)
        if not isinstance(value, str):
            raise Refused(422, "bad_request", f"line {number} names no file; use {', '.join(PATH_COLUMNS)}")
        yield value


def archive_source(archive: Path, most: int) -> JobSource:
    """The members of an archive, which is walked through once; nothing is unpacked to disk.

    Raises:
        Refused: It is no archive, or has too many members.
    """
    items: list[tuple[str, dict[str, Any]]] = []
    try:
        for number, item in enumerate(archive_items(archive)):
            if number >= most:
                raise Refused(413, "too_large", f"a job has at most {most:,} images; make several")
            items.append((item.name.removeprefix(f"{archive}/")[:1024], {"member": number}))
    except ValueError:
        raise Refused(
            422, "bad_request", "the body is neither a zip nor a tar archive, or is damaged"
        ) from None
    return JobSource(items, archive)


def archive_items(archive: Path) -> Iterator[Item]:
    """The members of an archive, in order."""
    return list_items(archive)


def archive_ending(start: bytes) -> str:
    """Ending of the file's name, by which it is read."""
    return ".zip" if start.startswith(b"PK") else ".tar"
