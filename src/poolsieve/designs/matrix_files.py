"""Designs as bytes: an archive of index arrays (.npz), or a text matrix of 0 and 1."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FORMAT_VERSION = 1
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class StoredPooling(NamedTuple):
    """What a file says of a design; nothing about it is checked yet but its form."""

    pools: NDArray[np.integer] | list[list[int]]
    images: int
    pool_size: int | None
    """Places in a pool; None where the format does not tell, as in a text matrix."""


def encode_archive(pools: NDArray[np.int32], images: int) -> bytes:
    """The archive of a design with these pools (m, r)."""
    buffer = io.BytesIO()
    version, count = np.int64(FORMAT_VERSION), np.int64(images)
    np.savez_compressed(buffer, format_version=version, images=count, pools=pools)
    return buffer.getvalue()


def encode_text(matrix: ArrayLike) -> bytes:
    """One line per pool, entries set apart by spaces."""
    rows = (" ".join(map(str, row)) for row in np.asarray(matrix).tolist())
    return ("\n".join(rows) + "\n").encode()


def decode(data: bytes) -> StoredPooling:
    """Read an archive or a text matrix; raises ValueError with the place where it is not one."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        return _decode_archive(data)
    return _decode_text(data)


def _decode_archive(data: bytes) -> StoredPooling:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            version, images, pools = (archive[key] for key in ("format_version", "images", "pools"))
    except (KeyError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"not a design archive, or a damaged one ({error})") from None
    for name, value in (("format_version", version), ("images", images)):
        if value.ndim or not np.issubdtype(value.dtype, np.integer):
            raise ValueError(f"`{name}` is not a whole number ({value!r})")
    if version != FORMAT_VERSION:
        raise ValueError(f"design format {version} is not known here (this version reads {FORMAT_VERSION})")
    if pools.ndim != 2 or not np.issubdtype(pools.dtype, np.integer):
        raise ValueError(f"`pools` is not an integer table (shape {pools.shape}, type {pools.dtype})")
    return StoredPooling(pools, int(images), pools.shape[1])


def _decode_text(data: bytes) -> StoredPooling:
    try:
        text = data.removeprefix(_BYTE_ORDER_MARK).decode("ascii")
    except UnicodeDecodeError:
        raise ValueError("neither a design archive (.npz) nor a text matrix of 0 and 1") from None
    pools: list[list[int]] = []
    width = 0
    first_line = 0
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#%":
            continue
        entries = _split(stripped)
        values = [_entry(entry) for entry in entries]
        if None in values:
            wrong = values.index(None)
            raise ValueError(f"line {number}, entry {wrong + 1} is {entries[wrong]!r}; expected 0 or 1")
        if not pools:
            width, first_line = len(entries), number
        elif len(entries) != width:
            raise ValueError(f"line {number} has {len(entries)} entries, line {first_line} has {width}")
        pools.append([k for k, value in enumerate(values) if value])
    if not pools:
        raise ValueError("the file holds no rows")
    return StoredPooling(pools, width, None)


def _split(line: str) -> list[str]:
    """Entries of a row; digits that stand together, as in 0110, are entries of their own."""
    entries = line.replace(",", " ").replace(";", " ").split()
    if all(entry.isdigit() for entry in entries):
        return list("".join(entries))
    return entries


def _entry(entry: str) -> int | None:
    """0 or 1, also when written as 1.0 or 1.000e+00; None for anything else."""
    try:
        value = float(entry)
    except ValueError:
        return None
    return int(value) if value in (0, 1) else None
