"""Telling a person how far a long run is: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from poolsieve.shown_text import shown

PLAIN_INTERVAL = 30.0
"""Seconds between two plain lines of one task."""


class Task:
    """One piece of work whose steps are counted."""

    def __init__(self, reporter: Reporter, name: str, total: int, bar: Progress | None) -> None:
        self._reporter, self._name, self._total, self._bar = reporter, name, total, bar
        self._done = self._counted = 0
        self._begin = self._spoken = time.monotonic()
        self._bar_id = bar.add_task(name, total=total, note="") if bar else None

    def skip(self, steps: int) -> None:
        """Count steps that an earlier run did, which must not flatter the time left."""
        self._done += steps
        if self._bar is not None and self._bar_id is not None:
            self._bar.update(self._bar_id, completed=self._done)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count steps as done; `note` is shown beside (loss, accuracy, speed)."""
        self._done += steps
        self._counted += steps
        if self._bar is not None and self._bar_id is not None:
            self._bar.update(self._bar_id, completed=self._done, note=note)
            return
        now = time.monotonic()
        if now - self._spoken >= PLAIN_INTERVAL:
            self._spoken = now
            left = (self._total - self._done) * (now - self._begin) / self._counted
            self._reporter.line(f"{self._name}: {self._done}/{self._total}, {note}, {duration(left)} left")

    @property
    def elapsed(self) -> float:
        """Seconds since the task began."""
        return time.monotonic() - self._begin

    @property
    def rate(self) -> float:
        """Steps a second so far, in this run."""
        return self._counted / max(self.elapsed, 1e-9)


class Reporter:
    """Prints lines and shows tasks.

    Args:
        console: Where to; standard error by default. Bars are drawn if it is a terminal.
        quiet: Print nothing at all.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._quiet = quiet

    def line(self, text: str) -> None:
        """Print one line; names of strangers in it cannot break it."""
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[Task]:
        """A task of `total` steps, shown while the block runs."""
        if self._quiet or not self._console.is_terminal:
            yield Task(self, name, total, None)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            yield Task(self, name, total, bar)


def duration(seconds: float) -> str:
    """A time span for people: 42 s, 7 min, 1 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
