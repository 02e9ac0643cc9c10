"""Writing files so that they appear whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

LONGEST_NAME = 255
"""Bytes of a file's name on the usual file systems."""
_TEMPORARY_ENDING = ".part"
_RANDOM_LETTERS = 8
"""What `tempfile` puts between prefix and ending."""


def shorten_name(name: str, most: int) -> str:
    """The end of a file's name, with its ending, in at most `most` bytes."""
    return os.fsencode(name)[-most:].decode("utf-8", "ignore") if len(os.fsencode(name)) > most else name


def nearest_present(path: Path) -> Path:
    """What there is of a path: itself, or the nearest of those that it lies in."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Raise at once, before long work, if no file can be written at `path`."""
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the name of a file")
    parent = nearest_present(target.parent)
    if not parent.is_dir():
        raise ValueError(f"{target}: {parent} is a file, not a folder")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"{target}: the folder {parent} cannot be written to")
    return target


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream whose content appears at `path` when the block ends, whole or not at all.

    It goes to a temporary file beside `path`: a reader sees the old file or the new one, never a part; on any
    failure (a full disk, a missing right) the old file stays and the temporary one is removed. Missing
    folders are made.
    """
    target = check_writable(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(
        dir=target.parent, prefix=_temporary_prefix(target), suffix=_TEMPORARY_ENDING
    )
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp makes it private
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write `data` to `path`, whole or not at all; see `atomic_file`."""
    with atomic_file(path) as stream:
        stream.write(data)
    return Path(path)


def remove_temporary_files(path: str | os.PathLike[str]) -> None:
    """Remove what killed runs left of writing `path`; call it only if nobody is writing it now."""
    target = Path(path)
    if not target.parent.is_dir():
        return
    with os.scandir(target.parent) as entries:
        for entry in entries:
            if f".{written_as(entry.name)}." == _temporary_prefix(target):
                Path(entry.path).unlink(missing_ok=True)


def import_parquet() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`; ImportError, with what to install, if they are missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'poolsieve[parquet]', or choose a file that ends in .csv"
        ) from None
    return pyarrow, pyarrow.parquet


def written_as(name: str) -> str | None:
    """What a temporary file was to be named, at least the end of it; None if the name is not of one."""
    found = re.fullmatch(rf"\.(.+)\.[a-z0-9_]{{{_RANDOM_LETTERS}}}{re.escape(_TEMPORARY_ENDING)}", name, re.S)
    return None if found is None else found[1]


def _temporary_prefix(target: Path) -> str:
    room = LONGEST_NAME - len("..") - _RANDOM_LETTERS - len(_TEMPORARY_ENDING)
    return f".{shorten_name(target.name, room)}."
