"""What networks said of pools, kept on disk as it comes: equal pools of equal images are read once.

The file is a log of records, each with a checksum. A run that was killed leaves at most one unfinished
record, which the next run drops.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

_HEADER = struct.Struct("<IIII")
"""Rows, columns, checksum of keys and numbers, checksum of what stands before."""
_KEY = 16
_LARGEST = 1 << 28
"""Numbers in a record at most; more must be damage."""


class PoolCache:
    """Rows of numbers by the pools that they were read from; a context manager.

    Args:
        path: The file; None keeps them in this process only.

    Attributes:
        recalled: Pools that were asked for and known.
        computed: Pools that were asked for and not known.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        self._stream: IO[bytes] | None = None
        self.recalled = self.computed = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a+b")
            self._read()

    def __enter__(self) -> PoolCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Write what is left to the disk."""
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._stream = None

    def recall(
        self,
        pools: NDArray[np.integer],
        label: str,
        compute: Callable[[NDArray[np.integer]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """The rows of some pools; those that are not known are computed, all at once.

        Args:
            pools: Numbers of the distinct images in each pool.  # (m, r)
            label: What is read of them, such as the network's name.
            compute: Gives the rows of some of the pools.  # (k, r) -> (k, columns)

        Returns:
            What was read.  # (m, columns)
        """
        members = np.ascontiguousarray(pools, dtype="<i8")
        start = hashlib.blake2b(f"{label} {members.shape[1]}".encode(), digest_size=_KEY)
        keys = []
        for row in members:
            digest = start.copy()
            digest.update(row.data)
            keys.append(digest.digest())
        missing = [k for k, key in enumerate(keys) if key not in self._rows]
        self.recalled += len(keys) - len(missing)
        if missing:
            self.computed += len(missing)
            table = np.ascontiguousarray(compute(members[missing]), dtype="<f4")
            self._write([keys[k] for k in missing], table)
        return np.stack([self._rows[key] for key in keys])

    def _write(self, keys: list[bytes], table: NDArray[np.float32]) -> None:
        self._rows.update(zip(keys, table, strict=True))
        if self._stream is not None:
            data = b"".join(keys) + table.tobytes()
            head = struct.pack("<III", *table.shape, zlib.crc32(data))
            self._stream.write(head + struct.pack("<I", zlib.crc32(head)) + data)
            self._stream.flush()

    def _read(self) -> None:
        """Read all whole records, and drop what follows the last of them."""
        stream = self._stream
        assert stream is not None
        stream.seek(0)
        whole = 0
        while True:
            head = stream.read(_HEADER.size)
            if len(head) < _HEADER.size:
                break
            rows, columns, checksum, own = _HEADER.unpack(head)
            if zlib.crc32(head[:-4]) != own or rows * columns > _LARGEST:
                break
            size = rows * (_KEY + 4 * columns)
            data = stream.read(size)
            if len(data) < size or zlib.crc32(data) != checksum:
                break
            keys = [data[start : start + _KEY] for start in range(0, rows * _KEY, _KEY)]
            table = np.frombuffer(data, dtype="<f4", offset=rows * _KEY).reshape(rows, columns)
            self._rows.update(zip(keys, table, strict=True))
            whole = stream.tell()
        stream.truncate(whole)
        stream.seek(0, os.SEEK_END)
