"""Files of verdicts: CSV, JSONL or Parquet by the ending, and the log of a run that is not finished.

While a run goes on, verdicts are appended chunk by chunk to a log beside the output file. A run that was
killed goes on from the last whole chunk; when all is done, the output appears at once and the log goes.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import IO, Any

from poolsieve.files import atomic_file, check_writable
from poolsieve.verdicts import Verdict

ENDINGS = (".csv", ".jsonl", ".parquet")
FORMAT_VERSION = 3
_COLUMNS = tuple(field.name for field in fields(Verdict))
_WHOLE_COLUMNS = ("position", "chunk", "seed")
_NUMBER_COLUMNS = ("score", "prior", "pool_score")
_ROW_GROUP = 10_000


def check_output(path: str | os.PathLike[str]) -> Path:
    """Raise at once, before long work, if verdicts cannot be written in that form."""
    target = Path(path)
    if target.suffix not in ENDINGS:
        raise ValueError(
            f"{target}: verdicts are written as {', '.join(ENDINGS)}; choose one of these endings"
        )
    if target.suffix == ".parquet":
        _import_parquet()
    return check_writable(target)


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
    def begin(cls, output: str | os.PathLike[str], header: Mapping[str, Any]) -> VerdictLog:
        """Start a log; fails at once if nothing can be written there.

        Raises:
            ValueError: There is the log of an unfinished run.
            OSError: The folder cannot be written to.
        """
        target, path = check_output(output), cls.path_for(output)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as stream:
                stream.write(_line({"format": FORMAT_VERSION, **header}))
        except FileExistsError:
            raise ValueError(
                f"{path} is left from a run that did not finish; go on with --resume, or remove it"
            ) from None
        return cls(target, path, 0, None)

    @classmethod
    def header_of(cls, output: str | os.PathLike[str]) -> dict[str, Any] | None:
        """What the log of an unfinished run says of it; None if there is no log."""
        path = cls.path_for(output)
        if not path.exists():
            return None
        with path.open("rb") as stream:
            header = _parsed(stream.readline())
        if header is None or header.get("format") != FORMAT_VERSION:
            raise ValueError(
                f"{path} holds nothing that this version can go on from; remove it to start anew"
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
                    "give the same options, or remove it to start anew"
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

    def finish(self) -> Path:
        """Write the output file, which appears whole or not at all, and remove the log."""
        write_verdicts(self.verdicts(), self._output)
        self.path.unlink()
        return self._output


def write_verdicts(verdicts: Iterable[Verdict], path: str | os.PathLike[str]) -> Path:
    """Write verdicts as they come; the file appears whole or not at all.

    In CSV and Parquet the pools of an image are one column of JSON; in JSONL they are a list.
    """
    target = check_output(path)
    write = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}[target.suffix]
    with atomic_file(target) as stream:
        write(verdicts, stream)
    return target


def _write_csv(verdicts: Iterable[Verdict], stream: IO[bytes]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for verdict in verdicts:
        writer.writerow(_row(verdict))
    text.flush()
    text.detach()  # the stream is its owner's to close


def _write_jsonl(verdicts: Iterable[Verdict], stream: IO[bytes]) -> None:
    for verdict in verdicts:
        stream.write(_line(verdict.to_json()).encode())


def _write_parquet(verdicts: Iterable[Verdict], stream: IO[bytes]) -> None:
    arrow, parquet = _import_parquet()
    kinds = dict.fromkeys(_COLUMNS, arrow.string())
    kinds |= dict.fromkeys(_WHOLE_COLUMNS, arrow.int64()) | dict.fromkeys(_NUMBER_COLUMNS, arrow.float64())
    schema = arrow.schema([(name, kinds[name]) for name in _COLUMNS])
    rows = ({**_row(verdict), "path": _printable(verdict.path)} for verdict in verdicts)
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(rows, _ROW_GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _row(verdict: Verdict) -> dict[str, Any]:
    values = verdict.to_json()
    values["pools"] = json.dumps(values["pools"], separators=(",", ":"))
    return values


def _printable(path: str) -> str:
    """A file name that is no proper text, as text that Parquet can hold."""
    return path.encode("utf-8", "backslashreplace").decode()


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


def _import_parquet() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'poolsieve[parquet]', or write .csv or .jsonl"
        ) from None
    return pyarrow, pyarrow.parquet
