"""Reading images on threads, so that networks need not wait for each: ahead of need, or as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from typing import TypeVar

from poolsieve.images.sources import Item, Loaded, room_for

Result = TypeVar("Result")


def read_ahead(
    items: Iterable[Item], prepare: Callable[[Item, Loaded], Result], *, threads: int, ahead: int
) -> Iterator[Result]:
    """Prepare items on threads, ahead of whoever takes the results, and give them in order.

    Items are listed in the calling thread; at most so many `ahead` are being prepared or wait to be taken.
    `prepare` is called on a thread with an item and, if it had to be loaded at once, its content.
    """
    workers = ThreadPoolExecutor(threads, thread_name_prefix="reading")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(start_preparing(workers, prepare, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        workers.shutdown(wait=True, cancel_futures=True)


def read_as_they_come(
    items: Iterator[Item], prepare: Callable[[Item, Loaded], Result], *, threads: int, size: int
) -> Iterator[list[Result]]:
    """Prepare items on threads and give them `size` at a time, before any further one is asked for.

    Items are listed in the calling thread; an error of the listing is raised after those that came before it.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="reading") as workers:
        failure = None
        while failure is None:
            chunk = []
            try:
                for item in islice(items, size):
                    chunk.append(start_preparing(workers, prepare, item))
            except Exception as error:
                failure = error
            if chunk:
                yield [prepared.result() for prepared in chunk]
            if len(chunk) < size:
                break
        if failure is not None:
            raise failure


def start_preparing(
    workers: ThreadPoolExecutor, prepare: Callable[[Item, Loaded], Result], item: Item
) -> Future[Result]:
    """Prepare an item on a thread; what must be loaded at once is loaded here.

    Pixels that must be taken at once are prepared here too, as they take less room when they are.
    """
    if not item.sequential:
        return workers.submit(prepare, item, None)
    room = ExitStack()
    room.enter_context(room_for(item))
    data: Loaded
    try:
        data = item.load()
    except (OSError, ValueError) as error:
        data = error
    if isinstance(data, bytes):
        task = workers.submit(prepare, item, data)
        task.add_done_callback(lambda _: room.close())
        return task
    done: Future[Result] = Future()
    with room:
        done.set_result(prepare(item, data))
    return done
