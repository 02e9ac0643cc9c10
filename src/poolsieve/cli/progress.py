"""Progress on the terminal: a bar where there is one, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call after each of `total` steps, with a word on what was done.

    Goes to standard error, so that standard output holds results only.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn(title),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("", total=total)
            yield lambda word: progress.update(task, advance=1, description=word)
        return
    done = 0
    last = began = time.monotonic()

    def advance(word: str) -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            left = (now - began) / done * (total - done)
            print(f"{title}: {done}/{total} ({word}), about {left:.0f} s left", file=sys.stderr, flush=True)
            last = now

    yield advance
