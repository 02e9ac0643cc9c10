"""What networks said of pools, kept on disk as it comes: equal pools of equal images are read once.

A database of rows with checksums. A run that was killed loses what it was writing, and no more.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_KEY = 16


class PoolCache:
    """Rows of numbers by the pools that they were read from; a context manager.

    Args:
        path: The file; None keeps them in this process only.

    Attributes:
        recalled: Pools that were asked for and known.
        computed: Pools that were asked for and not known.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._file: sqlite3.Connection | None = None
        self.recalled = self.computed = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._open(path)
            except sqlite3.DatabaseError:  # damaged; what it held is computed again
                self.close()
                for ending in ("", "-wal", "-shm"):
                    Path(f"{path}{ending}").unlink(missing_ok=True)
                self._open(path)

    def _open(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = WAL")  # no waiting for the disk at every row
        columns = "key BLOB PRIMARY KEY, row BLOB, checksum INTEGER"
        self._file.execute(f"CREATE TABLE IF NOT EXISTS pools ({columns})")
        stored = self._file.execute("SELECT key, row, checksum FROM pools")
        self._rows = {key: row for key, row, checksum in stored if zlib.crc32(key + row) == checksum}

    def __enter__(self) -> PoolCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Write what is left to the disk."""
        if self._file is not None:
            self._file.close()
            self._file = None

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
            self._write({keys[k]: row.tobytes() for k, row in zip(missing, table, strict=True)})
        return np.frombuffer(bytearray().join(self._rows[key] for key in keys), "<f4").reshape(len(keys), -1)

    def _write(self, rows: dict[bytes, bytes]) -> None:
        self._rows |= rows
        if self._file is not None:
            self._file.execute("BEGIN")
            entries = ((key, row, zlib.crc32(key + row)) for key, row in rows.items())
            self._file.executemany("INSERT OR REPLACE INTO pools VALUES (?, ?, ?)", entries)
            self._file.execute("COMMIT")
