"""Tables as files: CSV or Parquet, by the file's ending."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from poolsieve.files import check_writable, import_parquet, write_atomically
from poolsieve.shown_text import encodable

ENDINGS = (".csv", ".parquet")


def check_table_path(path: str | os.PathLike[str]) -> Path:
    """Raise at once, before long work, if a table cannot be written there."""
    target = check_writable(path)
    if target.suffix not in ENDINGS:
        raise ValueError(f"{target}: tables end in {' or '.join(ENDINGS)}")
    if target.suffix == ".parquet":
        import_parquet()
    return target


def write_table(records: Sequence[Mapping[str, object]], path: str | os.PathLike[str]) -> Path:
    r"""Write records with equal keys as CSV or Parquet; the file appears whole or not at all.

    Bytes of file names that are no text stand there as `\xff`, since both formats hold nothing but text.
    """
    target = check_table_path(path)
    records = [
        {key: encodable(value) if isinstance(value, str) else value for key, value in record.items()}
        for record in records
    ]
    if not records:
        raise ValueError(f"{target}: there is nothing to write")
    if target.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return write_atomically(target, text.getvalue().encode())
    arrow, parquet = import_parquet()
    buffer = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(records), buffer)
    return write_atomically(target, buffer.getvalue())
