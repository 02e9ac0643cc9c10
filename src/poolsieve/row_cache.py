"""Arrays with a row for each image that are dear to compute: kept on disk, and filled block by block.

A cache is a folder with one file for each array, a description of all that they depend on, and the checksums
of the blocks that are done. A run that was killed goes on after the last whole block; a damaged block is
found by its checksum and computed again. Only a process that holds the folder (see `lock_folder`) may fill
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.files import write_atomically
from poolsieve.folders import DISK_FULL, remove_leftovers
from poolsieve.progress import Reporter, duration

FORMAT_VERSION = 1
BLOCK_ROWS = 128
"""Rows between two progress marks."""
DESCRIPTION_FILE, BLOCKS_FILE = "description.json", "blocks.json"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class RowCache:
    """The cache of some arrays.

    Attributes:
        columns: Type of a row of each array, such as `np.dtype(("<f4", (80, 28, 28)))`, by name.
    """

    folder: Path  # its folder
    description: Mapping[str, Any]  # all that the arrays depend on, as plain values
    rows: int  # rows of each array
    columns: Mapping[str, np.dtype[Any]]

    @staticmethod
    def folder_below(root: Path, description: Mapping[str, Any]) -> Path:
        """The folder for what is described; its name stands for all of it."""
        text = json.dumps({"format": FORMAT_VERSION, **description}, sort_keys=True)
        return root / hashlib.sha256(text.encode()).hexdigest()[:24]

    def open(self) -> dict[str, NDArray[Any]] | None:
        """The arrays, mapped into memory; None unless every block is there and is what it was."""
        checksums = self._checksums()
        whole = len(checksums) == len(self._blocks) and all(map(self._is_whole, checksums.items()))
        return self._mapped() if whole else None

    def fill(
        self, name: str, compute: Callable[[slice], Iterable[Arrays]], reporter: Reporter
    ) -> dict[str, NDArray[Any]]:
        """Compute what is missing or damaged, in a folder that is locked, and open the arrays.

        `compute` gives the rows of a block, in order, some at a time; messages speak of the arrays by their
        `name`.

        Raises:
            ValueError: The folder holds something else.
            OSError: The disk is too small, or full; the message names what is needed and what is free.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        self._claim()
        known = self._checksums()
        done = dict(filter(self._is_whole, known.items()))
        if len(done) < len(known):
            reporter.line(f"{name}: {len(known) - len(done)} damaged blocks in {self.folder}; computed again")
        missing = [block for block in range(len(self._blocks)) if block not in done]
        new = [self._blocks[block] for block in missing if block not in known]
        self._require_space(name, sum(rows.stop - rows.start for rows in new))
        if missing:
            try:
                self._compute(name, missing, done, compute, reporter)
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                raise OSError(
                    f"the disk is full: {self._needs(name)}. Make room or name another place with "
                    "--cache-dir, then run the same command again; what is already cached is kept"
                ) from error
        else:
            reporter.line(f"{name}: from {self.folder}")
        return self._mapped()

    def _compute(
        self,
        name: str,
        missing: list[int],
        done: dict[int, list[int]],
        compute: Callable[[slice], Iterable[Arrays]],
        reporter: Reporter,
    ) -> None:
        with ExitStack() as opened, reporter.task(name, self.rows) as task:
            # Plain writes, not a writable memory map: a full disk is then an error and not a killed process.
            files = {column: opened.enter_context(self._writable(column)) for column in self.columns}
            task.skip(self.rows - sum(self._blocks[k].stop - self._blocks[k].start for k in missing))
            for block in missing:
                sums = dict.fromkeys(self.columns, 0)
                for column, kind in self.columns.items():
                    files[column].seek(self._blocks[block].start * kind.itemsize)
                for part in compute(self._blocks[block]):
                    for column, kind in self.columns.items():
                        values = np.ascontiguousarray(part[column], kind.base).reshape(-1, *kind.shape)
                        sums[column] = zlib.crc32(values.data, sums[column])
                        files[column].write(values)
                    task.advance(len(values), f"{task.rate:.0f} images/s")
                for file in files.values():
                    file.flush()
                    os.fsync(file.fileno())
                done[block] = list(sums.values())
                write_atomically(self.folder / BLOCKS_FILE, json.dumps(done).encode())
            seconds = task.elapsed
        reporter.line(f"{name}: done in {duration(seconds)}")

    def _file(self, column: str) -> Path:
        return self.folder / f"{column}.rows"

    def _writable(self, column: str) -> Any:
        return os.fdopen(os.open(self._file(column), os.O_RDWR | os.O_CREAT, 0o666), "r+b")

    def _mapped(self) -> dict[str, NDArray[Any]]:
        return {
            column: np.asarray(np.memmap(self._file(column), kind, "r", shape=(self.rows,)))
            for column, kind in self.columns.items()
        }

    @property
    def _blocks(self) -> list[slice]:
        starts = range(0, self.rows, BLOCK_ROWS)
        return [slice(start, min(start + BLOCK_ROWS, self.rows)) for start in starts]

    def _checksums(self) -> dict[int, list[int]]:
        """Checksums of the arrays in each block that was written."""
        try:
            stored = json.loads((self.folder / BLOCKS_FILE).read_bytes())
            return {
                int(block): list(sums) for block, sums in stored.items() if int(block) < len(self._blocks)
            }
        except (OSError, ValueError, AttributeError, TypeError):  # nothing done, or no longer legible
            return {}

    def _is_whole(self, entry: tuple[int, list[int]]) -> bool:
        block, sums = entry
        rows, found = self._blocks[block], []
        for column, kind in self.columns.items():
            size = (rows.stop - rows.start) * kind.itemsize
            try:
                data = np.fromfile(self._file(column), np.uint8, size, offset=rows.start * kind.itemsize)
            except OSError:
                return False
            found.append(zlib.crc32(data.data))
        return found == sums

    def _claim(self) -> None:
        """Describe a new folder, or make sure that it is described so."""
        file = self.folder / DESCRIPTION_FILE
        description = json.loads(json.dumps({"format": FORMAT_VERSION, **self.description}))
        if not file.is_file():
            write_atomically(file, (json.dumps(description, indent=2) + "\n").encode())
            return
        try:
            known = json.loads(file.read_bytes())
        except ValueError as error:
            raise ValueError(
                f"{file} is damaged ({error}); remove the folder {self.folder} and run again"
            ) from error
        if known != description:
            raise ValueError(
                f"{self.folder} holds what was computed of other images or networks; name another --cache-dir"
            )

    def _require_space(self, name: str, rows: int) -> None:
        row = sum(kind.itemsize for kind in self.columns.values())
        if shutil.disk_usage(self.folder).free < rows * row:
            raise OSError(f"{self._needs(name)}. Make room, or name another place with --cache-dir")

    def _needs(self, name: str) -> str:
        size = self.rows * sum(kind.itemsize for kind in self.columns.values())
        free = shutil.disk_usage(self.folder).free
        return f"the {name} need {_bytes(size)} in {self.folder}, but only {_bytes(free)} are free"


def _bytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e6:.2f} MB"
