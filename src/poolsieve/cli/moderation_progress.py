"""How far a run of moderation is: on a terminal one line that changes, elsewhere a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from poolsieve.cli.saying import say
from poolsieve.progress import PLAIN_INTERVAL, duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from poolsieve.moderation import Totals


class StatusLine:
    """A line on a console that changes, or is said now and then where that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = self._spoken = time.monotonic()
        self._status: Status | None = None

    @contextmanager
    def shown(self, first: str = "reading") -> Iterator[Self]:
        """Show it while the block runs."""
        with self._console.status(first) as self._status:
            yield self

    def change(self, line: str) -> None:
        """Show another line."""
        if self._status is not None:
            self._status.update(line)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._spoken >= PLAIN_INTERVAL:
            self._spoken = now
            say(self._console, line)

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._begin


class ModerationProgress(StatusLine):
    """Shows counts, and how many are left as soon as the source has been counted.

    `count` does that on a thread of its own, or gives None if it would cost much. The totals are of the run
    that begins, with what an earlier run did of it.
    """

    def __init__(self, console: Console, totals: Totals, count: Callable[[], int | None]) -> None:
        super().__init__(console)
        self._totals, self._count = totals, count
        self._done = totals.images + totals.not_images  # before, so that it does not flatter the time left
        self._told = len(totals.plan_changes())
        self._total: int | None = None

    @contextmanager
    def shown(self, first: str = "reading") -> Iterator[Self]:
        """Show it while the block runs."""
        threading.Thread(target=self._count_source, name="counting", daemon=True).start()
        with super().shown(first):
            yield self

    def update(self) -> None:
        """Tell of what has been done by now, and of changes of plan."""
        for change in self._totals.plan_changes()[self._told :]:
            say(self._console, change)
            self._told += 1
        self.change(self._line())

    def _count_source(self) -> None:
        with suppress(OSError, ValueError):  # the run itself will tell
            self._total = self._count()

    def _line(self) -> str:
        totals = self._totals
        files = totals.images + totals.not_images
        line = (
            f"{totals.images:,} images, {totals.flagged:,} flagged, {totals.errors:,} errors, "
            f"{totals.images_per_second:.1f} images/s"
        )
        judged = files - self._done
        if self._total is None or judged <= 0:
            return line
        left = max(self._total - files, 0) * self.seconds / judged
        return f"{files:,} of {self._total:,} files: {line}, {duration(left)} left"
