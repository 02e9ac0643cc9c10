"""Files of verdicts: CSV, JSONL or Parquet by the ending, and the log of a run that is not finished.

While a run goes on, verdicts are appended chunk by chunk to a log beside the output file, which only that run
may write to: it holds a lock. A run that was killed goes on from the last whole chunk; when all is done, the
output appears at once and the log goes.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import IO, Any

from poolsieve.files import atomic_file, check_writable, import_parquet
from poolsieve.moderation.verdicts import Verdict
from poolsieve.shown_text import encodable

ENDINGS = (".csv", ".jsonl", ".parquet")
FORMAT_VERSION = 5
_COLUMNS = tuple(field.name for field in fields(Verdict))
_WHOLE_COLUMNS = ("position", "chunk", "seed")
_NUMBER_COLUMNS = ("score", "prior", "pool_score")
_CELL_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_COLUMNS, lambda cell: cell or None),
    **dict.fromkeys(_WHOLE_COLUMNS, int),
    **dict.fromkeys(_NUMBER_COLUMNS, lambda cell: float(cell) if cell else None),
    "path": str,
    "pools": json.loads,
}
"""What the cells of a CSV hold, by column."""
_ROW_GROUP = 10_000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What makes a spreadsheet take a cell for a formula."""


def check_output(path: str | os.PathLike[str]) -> Path:
    """Raise at once, before long work, if verdicts cannot be written in that form."""
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise ValueError(
            f"{target}: verdicts are written as {', '.join(ENDINGS)}; choose one of these endings"
        )
    if target.suffix == ".parquet":
        import_parquet()
    return check_writable(target)


@contextmanager
def lock_output(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep all other runs from writing an output file and its log while the block runs.

    Raises:
        ValueError: Another run is at it.
        OSError: The file system has no locks.
    """
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise ImportError("moderating needs filelock: pip install 'poolsieve[moderate]'") from None

    file = lock_path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"another run is writing {os.fspath(path)} at this moment; wait until it has ended, or choose "
            "another output"
        ) from None
    except OSError as error:
        raise OSError(f"{file} cannot be locked ({error}); choose an output on another file system") from None
    try:
        yield
    finally:
        with suppress(OSError):  # where open files cannot be removed
            file.unlink()  # before it is released, so that whoever waits for it sees that it is gone
        lock.release()


def lock_path(output: str | os.PathLike[str]) -> Path:
    """Where the lock of an output file is while a run lasts."""
    return Path(f"{os.fspath(output)}.lock")


class DamagedLogError(ValueError):
    """A log that no run can go on from."""


class VerdictLog:
    """Verdicts of a run that is not finished, as lines of JSON beside the output file.

    Make it by `VerdictLog.begin` or `VerdictLog.resume`.

    Attributes:
        path: The log.
        done: Number of verdicts in it, all of whole chunks.
        state: What was told with the last chunk.
    """

    def __init__(self, output: Path, path: Path, done: int, state: dict[str, Any] | None) -> None:
        self._output, self.path, self.done, self.state = output, path, done, state

    @staticmethod
    def path_for(output: str | os.PathLike[str]) -> Path:
        """Where the log of an output file is."""
        return Path(f"{os.fspath(output)}.partial")

    @classmethod
    def begin(
        cls, output: str | os.PathLike[str], header: Mapping[str, Any], *, replace: bool = False
    ) -> VerdictLog:
        """Start a log; fails at once if nothing can be written there.

        Args:
            output: The file that the verdicts will go to.
            header: What describes the run.
            replace: Start anew if there is the log of an unfinished run.

        Raises:
            ValueError: There is the log of an unfinished run.
            OSError: The folder cannot be written to.
        """
        target, path = check_output(output), cls.path_for(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("w" if replace else "x", encoding="utf-8") as stream:
                stream.write(_line({"format": FORMAT_VERSION, **header}))
        except FileExistsError:
            raise ValueError(
                f"{path} is left from a run that did not finish; go on with --resume, or start anew with "
                "--force"
            ) from None
        return cls(target, path, 0, None)

    @classmethod
    def header_of(cls, output: str | os.PathLike[str]) -> dict[str, Any] | None:
        """What the log of an unfinished run says of it; None if there is no log."""
        path = cls.path_for(output)
        if not path.exists():
            return None
        with path.open("rb") as stream:
            line = stream.readline()
        header = _parsed(line)
        if header is None:
            torn = "is cut off" if not line.endswith(b"\n") else "is damaged"
            raise ValueError(
                f"the first line of {path}, which says what run it is of, {torn}; there is nothing to go on "
                "from: start anew with --force"
            )
        if header.get("format") != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format {header.get('format')!r}, and this version goes on from format "
                f"{FORMAT_VERSION}; start anew with --force"
            )
        del header["format"]
        return header

    @classmethod
    def resume(cls, output: str | os.PathLike[str], header: Mapping[str, Any]) -> VerdictLog:
        """Go on with a log; whatever follows the last whole chunk is dropped.

        Raises:
            ValueError: The log is of another run: another bundle, scheme, seed or source.
        """
        target, path = check_output(output), cls.path_for(output)
        found = cls.header_of(output)
        if found is None:
            return cls.begin(output, header)
        for name, value in header.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{path} is of a run with {name} {found.get(name)!r}, not {value!r}; "
                    "give the same options, or start anew with --force"
                )
        done = pending = 0
        state: dict[str, Any] | None = None
        with path.open("r+b") as stream:
            read = whole = len(stream.readline())
            for line in stream:
                values = _parsed(line)
                if values is None:
                    break
                read += len(line)
                if "chunk_done" in values:
                    done, state, whole = pending, values["state"], read
                else:
                    pending += 1
            stream.truncate(whole)
        return cls(target, path, done, state)

    def append(self, chunk: int, verdicts: Sequence[Verdict], state: Mapping[str, Any]) -> None:
        """Add a whole chunk, so that it survives a kill from here on."""
        text = "".join(_line(verdict.to_json()) for verdict in verdicts)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(text + _line({"chunk_done": chunk, "state": state}))
            stream.flush()
            os.fsync(stream.fileno())
        self.done += len(verdicts)
        self.state = dict(state)

    def verdicts(self) -> Iterator[Verdict]:
        """All verdicts so far, in order, one at a time."""
        with self.path.open(encoding="utf-8") as stream:
            next(stream)
            for line in stream:
                values = json.loads(line)
                if "chunk_done" not in values:
                    yield Verdict.from_json(values)

    def discard(self) -> None:
        """Remove the log of a run that did nothing."""
        self.path.unlink(missing_ok=True)

    def finish(self, *, spreadsheet_safe: bool = False) -> Path:
        """Write the output file, which appears whole or not at all, and remove the log.

        Args:
            spreadsheet_safe: As in `write_verdicts`.

        Raises:
            DamagedLogError: The log does not hold all verdicts; nothing is put in place.
        """
        write_verdicts(self._all_verdicts(), self._output, spreadsheet_safe=spreadsheet_safe)
        self.path.unlink()
        return self._output

    def _all_verdicts(self) -> Iterator[Verdict]:
        count = 0
        for verdict in self.verdicts():
            if verdict.position != count:
                break
            count += 1
            yield verdict
        else:
            if count == self.done:
                return
        raise DamagedLogError(
            f"{self.path} does not hold the {self.done:,} verdicts of this run in their order (it goes wrong "
            f"after {count:,}): something else has written to it. {self._output} was not made; start anew "
            "with --force"
        )


def write_verdicts(
    verdicts: Iterable[Verdict], path: str | os.PathLike[str], *, spreadsheet_safe: bool = False
) -> Path:
    """Write verdicts as they come; the file appears whole or not at all.

    In CSV and Parquet the pools of an image are one column of JSON; in JSONL they are a list.

    Args:
        verdicts: In the order of the table.
        path: A file that ends in .csv, .jsonl or .parquet.
        spreadsheet_safe: In a CSV, put ' before text that a spreadsheet would take for a formula.
    """
    target = check_output(path)
    with atomic_file(target) as stream:
        if target.suffix == ".csv":
            _write_csv(verdicts, stream, spreadsheet_safe)
        elif target.suffix == ".jsonl":
            stream.writelines(_line(verdict.to_json()).encode() for verdict in verdicts)
        else:
            write_parquet(verdicts, stream)
    return target


def read_verdicts(path: str | os.PathLike[str]) -> Iterator[Verdict]:
    """The verdicts of a finished table, in order, one at a time.

    Raises:
        ValueError: If it is no table of verdicts.
        OSError: If it cannot be opened.
    """
    table = Path(path)
    if table.suffix not in ENDINGS:
        raise ValueError(f"{table}: tables of verdicts end in {', '.join(ENDINGS)}")
    rows = {".csv": _csv_rows, ".jsonl": _jsonl_rows, ".parquet": _parquet_rows}[table.suffix](table)
    return _verdicts_of(rows, str(table))


def parquet_verdicts(stream: IO[bytes], name: str) -> Iterator[Verdict]:
    """The verdicts of a Parquet file that is open, in order; `name` is for errors."""
    return _verdicts_of(_parquet_rows(stream), name)


def _verdicts_of(rows: Iterator[dict[str, Any]], table: str) -> Iterator[Verdict]:
    try:
        for row in rows:
            yield Verdict.from_json({name: row[name] for name in _COLUMNS})
    except KeyError as error:
        raise ValueError(f"{table} has no column {error}, so it is no table of verdicts") from None
    except (csv.Error, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{table}: no table of verdicts, or a damaged one ({error})") from None


def _csv_rows(table: Path) -> Iterator[dict[str, Any]]:
    with table.open(newline="", encoding="utf-8", errors="surrogateescape") as stream:
        for row in csv.DictReader(stream):
            yield {name: read(row[name]) for name, read in _CELL_READERS.items()}


def _jsonl_rows(table: Path) -> Iterator[dict[str, Any]]:
    with table.open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _parquet_rows(table: Path | IO[bytes]) -> Iterator[dict[str, Any]]:
    _, parquet = import_parquet()
    with parquet.ParquetFile(table) as file:
        for batch in file.iter_batches(_ROW_GROUP):
            for row in batch.to_pylist():
                yield {**row, "pools": json.loads(row["pools"])}


def _write_csv(verdicts: Iterable[Verdict], stream: IO[bytes], spreadsheet_safe: bool) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors=_FILE_NAMES, newline="")
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    quoting = csv.DictWriter(text, _COLUMNS, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for verdict in verdicts:
        row = _row(verdict)
        if spreadsheet_safe:
            row = {name: _plain_cell(value) for name, value in row.items()}
        # A carriage return is not quoted if lines end otherwise, and readers take it for the end of one.
        returns = any(isinstance(value, str) and "\r" in value for value in row.values())
        (quoting if returns else writer).writerow(row)
    text.flush()
    text.detach()  # the stream is its owner's to close


def write_parquet(
    verdicts: Iterable[Verdict], stream: IO[bytes], metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Write verdicts as Parquet as they come, with whatever else the file shall tell."""
    arrow, parquet = import_parquet()
    kinds = dict.fromkeys(_COLUMNS, arrow.string())
    kinds |= dict.fromkeys(_WHOLE_COLUMNS, arrow.int64()) | dict.fromkeys(_NUMBER_COLUMNS, arrow.float64())
    schema = arrow.schema([(name, kinds[name]) for name in _COLUMNS], metadata=metadata)
    rows = (
        {name: encodable(value) if isinstance(value, str) else value for name, value in _row(verdict).items()}
        for verdict in verdicts
    )
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _row(verdict: Verdict) -> dict[str, Any]:
    values = verdict.to_json()
    values["pools"] = json.dumps(values["pools"], separators=(",", ":"))
    return values


def _plain_cell(value: Any) -> Any:
    """A cell that a spreadsheet does not compute; numbers are left alone."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _encode_file_names(error: UnicodeError) -> tuple[str | bytes, int]:
    """Undecodable bytes of a file's name as they were; other lone surrogates, which no file has, escaped."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)


_FILE_NAMES = "poolsieve.file-names"
codecs.register_error(_FILE_NAMES, _encode_file_names)


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A whole line of a log, or None if it was cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None
