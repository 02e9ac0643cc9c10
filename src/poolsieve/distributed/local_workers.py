"""Workers that are processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from poolsieve.distributed.opening import Opening
from poolsieve.distributed.segment_judging import SegmentJudge
from poolsieve.distributed.worker_pool import AT_ONCE, Done, Event, PartTask, WorkerPool


@dataclass(frozen=True, eq=False)
class LocalWorker:
    """A process, and the pipe to it."""

    process: BaseProcess
    pipe: Connection


class LocalPool(WorkerPool[LocalWorker]):
    """Processes on this machine; they end with the one that began them, however it ends.

    Args:
        opening: Makes their moderators.
        run: The run's folder.
        size: Number of workers.
        threads: Threads that the engine of each computes on; None for its own choice.
    """

    def __init__(self, opening: Opening, run: str, size: int, threads: int | None) -> None:
        super().__init__(size)
        self._given = (opening, run, threads)
        self._context = multiprocessing.get_context("spawn")  # engines have threads, which no fork survives

    def _start(self) -> LocalWorker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(*self._given, theirs), daemon=False)
        process.start()
        theirs.close()
        return LocalWorker(process, ours)

    def _send(self, worker: LocalWorker, task: PartTask) -> None:
        with suppress(OSError):  # it is dead, which is noticed by `_events`
            worker.pipe.send(task)

    def _events(self, workers: Iterable[LocalWorker], timeout: float) -> list[Event[LocalWorker]]:
        by_pipe = {worker.pipe: worker for worker in workers}
        events: list[Event[LocalWorker]] = []
        for pipe in wait(list(by_pipe), timeout):
            worker = by_pipe[pipe]  # type: ignore[index]
            try:
                told = worker.pipe.recv()
            except (EOFError, OSError):
                events.append(Event(worker))
            else:
                is_done = isinstance(told, Done)
                events.append(Event(worker, told if is_done else None, None if is_done else str(told)))
        return events

    def _stop(self, worker: LocalWorker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()


def _work(opening: Opening, run: str, threads: int | None, pipe: Connection) -> None:
    """What a process does: judge what comes by the pipe, until nothing comes any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    telling = threading.Lock()

    def tell(what: object) -> None:
        with telling, suppress(OSError):
            pipe.send(what)

    def judge(task: PartTask) -> None:
        try:
            tell(Done(task.segment, judging.judge(task.segment, task.plan)))
        except BaseException as error:
            tell(words_of(error))

    try:
        judging = SegmentJudge(opening, run, threads)
    except BaseException as error:
        tell(words_of(error))
        return
    with ThreadPoolExecutor(AT_ONCE) as workers, suppress(EOFError, OSError):
        while True:
            workers.submit(judge, pipe.recv())


def words_of(error: BaseException) -> str:
    """An error for people."""
    expected = isinstance(error, ValueError | OSError | ImportError)
    return str(error) if expected else f"unexpected {type(error).__name__} in a worker: {error}"


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
