"""Giving segments to workers, and giving those of a worker that died to another."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

AT_ONCE = 2
"""Segments that a worker has: it judges one, and reads the first images of the other."""
MOST_DEATHS = 5
"""Workers that may die of one segment, or one after the other before they have done any."""
_LOG = logging.getLogger(__name__)

Worker = TypeVar("Worker")


class WorkersFailedError(OSError):
    """What a worker could not do, in its words, or that workers die again and again."""


@dataclass(frozen=True)
class PartTask:
    """A segment to be judged, and the place of the plan that it follows."""

    segment: int
    plan: int | None


@dataclass(frozen=True)
class Done:
    """A segment that was judged, and what was learnt."""

    segment: int
    state: dict[str, Any]


@dataclass(frozen=True)
class Event(Generic[Worker]):
    """What a worker tells: a segment that is done, what went wrong, or (neither) that it died."""

    worker: Worker
    done: Done | None = None
    failure: str | None = None


class WorkerPool(ABC, Generic[Worker]):
    """Some workers. A worker that dies is replaced, and what it had is done again.

    Args:
        size: Number of workers.

    Attributes:
        deaths: Workers that died so far.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"{size} workers; give at least 1")
        self._size = size
        self._tasks: dict[Worker, list[PartTask]] = {}
        self._deadly: Counter[int | None] = Counter()
        self.deaths = 0

    @abstractmethod
    def _start(self) -> Worker:
        """Start a worker."""

    @abstractmethod
    def _send(self, worker: Worker, task: PartTask) -> None:
        """Give a worker a task; if it is dead, `_events` tells."""

    @abstractmethod
    def _events(self, workers: Iterable[Worker], timeout: float) -> list[Event[Worker]]:
        """Wait until a worker tells something, at most so many seconds."""

    @abstractmethod
    def _stop(self, worker: Worker) -> None:
        """End a worker, dead or not."""

    @property
    def has_room(self) -> bool:
        """Whether a worker may be given a segment."""
        return len(self._tasks) < self._size or any(len(t) < AT_ONCE for t in self._tasks.values())

    @property
    def idle(self) -> bool:
        """Whether no worker has anything to do."""
        return not any(self._tasks.values())

    def submit(self, task: PartTask) -> None:
        """Give a segment to the worker that has least to do, which is started if need be."""
        if len(self._tasks) < self._size:
            worker = self._start()
            self._tasks[worker] = []
        else:
            worker = min(self._tasks, key=lambda one: len(self._tasks[one]))
        self._tasks[worker].append(task)
        self._send(worker, task)

    def wait(self, timeout: float) -> list[Done]:
        """What was done, maybe nothing, after at most so many seconds.

        Raises:
            WorkersFailedError: A worker says what went wrong, or workers die again and again.
        """
        done = []
        for event in self._events(list(self._tasks), timeout):
            if event.failure is not None:
                raise WorkersFailedError(event.failure)
            if event.done is None:
                self._replace(event.worker)
                continue
            done.append(event.done)
            self._deadly.pop(None, None)
            self._tasks[event.worker] = [
                task for task in self._tasks[event.worker] if task.segment != event.done.segment
            ]
        return done

    def _replace(self, worker: Worker) -> None:
        self.deaths += 1
        tasks = self._tasks.pop(worker)
        self._stop(worker)
        cause = tasks[0].segment if tasks else None
        self._deadly[cause] += 1
        self._deadly[None] += 1
        if max(self._deadly[cause], self._deadly[None] - self._size) >= MOST_DEATHS:
            raise WorkersFailedError(
                f"{self._deadly[cause]} workers died of segment {cause}; what they have printed says why, or "
                "the system's log, for instance if memory was short. The same command goes on"
            )
        _LOG.warning("a worker died; its segments %s are done again", [task.segment for task in tasks])
        for task in tasks:
            self.submit(task)

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._tasks):
            self._stop(worker)
        self._tasks.clear()
