"""Labelled images in object stores: copied to disk once, as training reads each of them many times."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from poolsieve.files import write_atomically
from poolsieve.images.datasets import IMAGE_ENDINGS
from poolsieve.images.locations import Location
from poolsieve.images.store_listings import StoredFile

_THREADS = 16
_LARGEST_TABLE = 1 << 30
_VERSIONS = "versions.json"


def fetch_dataset(name: str, cache: Path | None = None) -> Path:
    """A copy of a data set on disk, as `load_dataset` takes it; what has not changed is not fetched again.

    Args:
        name: A folder of class folders or a CSV file, such as `s3://bucket/data/` or `s3://bucket/data.csv`,
            whose files are named relative to it.
        cache: Folder of copies; None for one in the user's cache.

    Raises:
        ValueError: A name leads out of the folder.
        OSError: Something cannot be read.
    """
    source = Location(name.rstrip("/"))
    kind = source.kind()
    if kind is None:
        raise FileNotFoundError(f"{name} does not exist; give a folder of class folders or a CSV file")
    folder = source if kind == "folder" else Location(source.name.rpartition("/")[0])
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = (
        (cache or Path(home) / "poolsieve") / "data" / hashlib.sha256(source.name.encode()).hexdigest()[:16]
    )
    target = place / source.name.rpartition("/")[2]
    root = target if kind == "folder" else place
    table = b"" if kind == "folder" else source.read_bytes(_LARGEST_TABLE)
    rows = csv.DictReader(io.StringIO(table.decode("utf-8-sig"), newline=""))
    named = {str(PurePosixPath((row.get("file") or "").strip())) for row in rows}
    there: dict[str, StoredFile] = {}
    for file in folder.files():
        inside = file.name[len(folder.name) + 1 :]
        if inside in named if kind == "file" else PurePosixPath(inside).suffix.lower() in IMAGE_ENDINGS:
            there[inside] = file
    strange = [inside for inside in (*there, *named) if {"..", "/", ""} & {*PurePosixPath(inside).parts}]
    if strange:
        raise ValueError(f"{name} names {strange[0]!r}, which leads out of {folder}; name files below it")
    _copy(there, root, place / _VERSIONS)
    if kind == "file":
        write_atomically(target, table)
    return target


def _copy(files: dict[str, StoredFile], root: Path, record: Path) -> None:
    """Bring a folder to what a store holds; the record tells which versions were fetched."""
    before = json.loads(record.read_bytes()) if record.is_file() else {}
    now = {inside: file.version or f"{file.size} bytes" for inside, file in files.items()}

    def fetch(inside: str) -> None:
        copy = root / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(copy, Location(files[inside].name).read_bytes(version=files[inside].version))

    for gone in set(before) - set(now):
        (root / gone).unlink(missing_ok=True)
    wanted = [inside for inside in now if before.get(inside) != now[inside] or not (root / inside).is_file()]
    with ThreadPoolExecutor(_THREADS) as readers:
        list(readers.map(fetch, wanted))
    record.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(now).encode())
