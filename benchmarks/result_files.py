"""What benchmarks measured, kept in benchmarks/results/*.json: README and docs state no other figures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poolsieve._version import __version__
from poolsieve.files import write_atomically

RESULTS = Path(__file__).parent / "results"


def write_result(name: str, command: str, rows: Sequence[dict[str, Any]], **more: Any) -> Path:
    """Keep the rows of a run.

    Args:
        name: Of the file, without `.json`.
        command: That anybody can type to repeat it.
        rows: Flat records; values that are not finite become null.
        more: What else a reader must know.
    """
    plain = [
        {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in rows
    ]
    document = {"command": command, "poolsieve": __version__, **more, "rows": plain}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return write_atomically(RESULTS / f"{name}.json", f"{text}\n".encode())


def read_result(name: str) -> dict[str, Any]:
    """What `write_result` kept."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found
