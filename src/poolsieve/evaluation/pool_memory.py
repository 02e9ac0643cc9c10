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

_HEADER = struct.Struct("<16sIIII")
"""Key, rows, columns, checksum of the numbers, checksum of what stands before."""
_LARGEST = 1 << 28
"""Numbers in a record at most; more must be damage."""


class PoolMemory:
    """A memory of tables of numbers by the pools that they were read from; a context manager.

    Args:
        path: The file; None remembers in this process only.

    Attributes:
        recalled: Tables that were asked for and known.
        computed: Tables that were asked for and not known.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._tables: dict[bytes, NDArray[np.float32]] = {}
        self._stream: IO[bytes] | None = None
        self.recalled = self.computed = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = path.open("a+b")
            self._read()

    def __enter__(self) -> PoolMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._tables)

    def close(self) -> None:
        """Write what is left to the disk."""
        if self._stream is not None:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._stream = None

    def recall(
        self, pools: NDArray[np.integer], label: str, compute: Callable[[], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """The table of some pools, computed if it is not known.

        Args:
            pools: Numbers of the distinct images in each pool.  # (m, r)
            label: What is read of them, such as the network's name.
            compute: Gives the table.  # (m, columns)
        """
        digest = hashlib.blake2b(f"{label} {pools.shape}".encode(), digest_size=16)
        digest.update(np.ascontiguousarray(pools, dtype="<i8").tobytes())
        key = digest.digest()
        if key in self._tables:
            self.recalled += 1
            return self._tables[key]
        table = np.ascontiguousarray(compute(), dtype="<f4")
        self.computed += 1
        self._tables[key] = table
        if self._stream is not None:
            data = table.tobytes()
            head = _HEADER.pack(key, *table.shape, zlib.crc32(data), 0)[:-4]
            self._stream.write(head + struct.pack("<I", zlib.crc32(head)) + data)
            self._stream.flush()
        return table

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
            key, rows, columns, checksum, own = _HEADER.unpack(head)
            if zlib.crc32(head[:-4]) != own or rows * columns > _LARGEST:
                break
            data = stream.read(4 * rows * columns)
            if len(data) < 4 * rows * columns or zlib.crc32(data) != checksum:
                break
            self._tables[key] = np.frombuffer(data, dtype="<f4").reshape(rows, columns)
            whole = stream.tell()
        stream.truncate(whole)
        stream.seek(0, os.SEEK_END)
