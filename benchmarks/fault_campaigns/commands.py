"""The real command in processes that can be killed, each started in milliseconds.

They are forked from a server that has imported everything and runs no threads.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

CANNOT_RUN = 2
Command = Callable[[Sequence[str], Path], None]
"""Runs `poolsieve` with arguments; all that it prints goes to a file."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("poolsieve.cli.main", "poolsieve.cli.moderation_outputs", "poolsieve.cli.moderation_summary"),
        *("poolsieve.moderation", "poolsieve.moderation.report", "poolsieve.engines.openvino_engine"),
        *("openvino", "pyarrow.parquet", "filelock", "rich.console", "rich.progress"),
    ]
)


def run_command(arguments: Sequence[str], output: Path) -> None:
    """Run the command in this process, which ends with it."""
    with output.open("ab") as stream:
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
    os.cpu_count = lambda: 1  # one process that decodes, as on a small machine: starting them takes longest
    from poolsieve.cli.main import main

    sys.argv = ["poolsieve", *arguments]
    main(list(arguments))


def start(command: Command, arguments: Sequence[str], output: Path) -> multiprocessing.process.BaseProcess:
    """Start a command in a process of its own."""
    process = _context.Process(target=command, args=(arguments, output))
    process.start()
    return process


def finished(command: Command, arguments: Sequence[str], output: Path, seconds: float) -> int | None:
    """The exit status of a command, negative if a signal ended it; None if it took too long."""
    process = start(command, arguments, output)
    process.join(seconds)
    late = process.is_alive()
    if late:
        process.kill()
        process.join()
    return None if late else process.exitcode


def complaint(status: int | None, printed: str, allowed: Sequence[int]) -> str | None:
    """What is wrong with how a command ended; None if nothing is."""
    if status is None:
        return "took too long"
    if "Traceback" in printed or "unexpected" in printed:
        return f"ended with {status}: {_end_of(printed)}"
    if status not in allowed or (status == CANNOT_RUN and "error:" not in printed):
        return f"ended with {status}: {_end_of(printed)}"
    return None


def _end_of(printed: str) -> str:
    return " ".join(printed.split())[-300:] or "nothing was printed"
