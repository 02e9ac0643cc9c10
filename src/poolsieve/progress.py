"""Telling a person how far a long run is: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from poolsieve.shown_text import shown

PLAIN_INTERVAL = 30.0
"""Seconds between two plain lines of one task."""


@dataclass
class _Part:
    """One part of a run: its work, the share that is done, and the share that was timed, with its seconds."""

    work: float
    done: float = 0.0
    timed: float = 0.0
    seconds: float = 0.0


class RunClock:
    """The time left of a run of many parts, of which the first are done and the last not begun.

    A part that has begun goes on at its own speed. One that has not will go at the mean speed of those that
    have, by how much work each is; so it is a rough figure until the longest part has begun.
    """

    def __init__(self, work: Mapping[str, float]) -> None:
        self._parts = {name: _Part(amount) for name, amount in work.items()}

    def count(self, part: str, share: float, seconds: float) -> None:
        """Count a share of a part as done in so many seconds."""
        known = self._parts.setdefault(part, _Part(0.0))
        known.done = min(1.0, known.done + share)
        known.timed += share
        known.seconds += seconds

    def reach(self, part: str, share: float) -> None:
        """Count a part as done up to a share of it, maybe by an earlier run."""
        known = self._parts.setdefault(part, _Part(0.0))
        known.done = max(known.done, share)

    def left(self) -> float | None:
        """Seconds until the end of the run; None as long as nothing was timed."""
        timed = sum(part.work * part.timed for part in self._parts.values())
        if timed <= 0:
            return None
        pace = sum(part.seconds for part in self._parts.values() if part.timed) / timed
        return sum(
            (1 - part.done) * (part.seconds / part.timed if part.timed else part.work * pace)
            for part in self._parts.values()
        )


class ProgressTask:
    """One piece of work whose steps are counted."""

    def __init__(self, reporter: Reporter, name: str, total: int, bar: Progress | None) -> None:
        self._reporter, self._name, self._total, self._bar = reporter, name, total, bar
        self._done = self._counted = 0
        self._begin = self._spoken = self._last = time.monotonic()
        if bar is not None:  # which shows this task alone
            bar.add_task(name, total=total, note="")

    def skip(self, steps: int) -> None:
        """Count steps that an earlier run did, which must not flatter the time left."""
        self._done += steps
        self._reporter.skip(steps / self._total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Count steps as done; `note` is shown beside (loss, accuracy, speed)."""
        self._done += steps
        self._counted += steps
        now = time.monotonic()
        self._reporter.count(steps / self._total, now - self._last)
        self._last = now
        in_all = self._reporter.left_in_all()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done, note=note + in_all)
        elif now - self._spoken >= PLAIN_INTERVAL:
            self._spoken = now
            left = (self._total - self._done) * (now - self._begin) / self._counted
            self._reporter.line(
                f"{self._name}: {self._done}/{self._total}, {note}, {duration(left)} left{in_all}"
            )

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

    Attributes:
        clock: Reckons the time left of the whole run, once its parts are known.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._quiet = quiet
        self.clock = RunClock({})
        self._part: tuple[str, float, float] | None = None  # from one share of it to another

    def line(self, text: str) -> None:
        """Print one line; names of strangers in it cannot break it."""
        self._console.print(shown(text), markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def part(self, name: str, begin: float = 0.0, end: float = 1.0) -> Iterator[None]:
        """What is done in the block is a part of the run, or brings it from one share of it to another."""
        before, self._part = self._part, (name, begin, end)
        self.clock.reach(name, begin)
        try:
            yield
        finally:
            self._part = before
        self.clock.reach(name, end)

    def count(self, share: float, seconds: float) -> None:
        """Count a share of the present part as done in so many seconds."""
        if self._part is not None:
            name, begin, end = self._part
            self.clock.count(name, share * (end - begin), seconds)

    def skip(self, share: float) -> None:
        """Count a share of the present part as done by an earlier run."""
        if self._part is not None:
            name, begin, end = self._part
            self.clock.reach(name, begin + share * (end - begin))

    def left_in_all(self) -> str:
        """The time left of the whole run, to be put at the end of a line; empty if nobody knows."""
        left = self.clock.left()
        return "" if left is None else f", about {duration(left)} left in all"

    @contextmanager
    def task(self, name: str, total: int) -> Iterator[ProgressTask]:
        """A task of `total` steps, shown while the block runs; the present part, if any, is this task."""
        if self._quiet or not self._console.is_terminal:
            yield ProgressTask(self, name, total, None)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            yield ProgressTask(self, name, total, bar)


def duration(seconds: float) -> str:
    """A time span for people: 42 s, 7 min, 1 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
