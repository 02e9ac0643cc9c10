"""Images that come one by one, from any thread: judged when a chunk is full or one has waited enough."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from queue import Empty, Queue
from typing import TYPE_CHECKING

from poolsieve.images.reading_ahead import start_preparing
from poolsieve.images.sources import AnyImage, Item, Loaded, image_item
from poolsieve.moderation.chunk_pixels import PreparedImage
from poolsieve.moderation.verdicts import Verdict

if TYPE_CHECKING:
    from poolsieve.moderation.moderator import Totals


@dataclass(frozen=True)
class _Waiting:
    """An image that waits for its chunk."""

    prepared: Future[PreparedImage]
    verdict: Future[Verdict]
    since: float


class Stream:
    """Takes images from any number of threads, and promises their verdicts; from `Moderator.stream`.

        with moderator.stream(longest_wait=0.1) as stream:
            verdict = stream.submit(image).result()

    It is one run: positions and chunks are numbered in the order in which images came, and the estimate of
    the prevalence goes on. Leaving the block decides about what is left. An image whose future is cancelled
    in time is not judged. Callbacks of futures run on the stream's own thread, so they must not wait for it.

    Args:
        prepare: Brings an item to what is judged; called on a thread.
        judge: Gives the verdicts on the next chunk; called on one thread.
        totals: What `judge` counts.
        chunk_size: Images of a full chunk.
        longest_wait: Seconds after which an image's chunk is judged although it is not full; None to wait
            until it is.
        threads: Threads that prepare.

    Attributes:
        totals: Counts, cost and estimated prevalence so far.
        room: Images that may wait to be judged before `submit` waits.
    """

    def __init__(
        self,
        prepare: Callable[[Item, Loaded], PreparedImage],
        judge: Callable[[Sequence[PreparedImage]], Sequence[Verdict]],
        totals: Totals,
        *,
        chunk_size: int,
        longest_wait: float | None,
        threads: int,
    ) -> None:
        check_wait(longest_wait)
        self.totals = totals
        self._prepare, self._judge = prepare, judge
        self._size, self._longest = chunk_size, longest_wait
        self.room = max(2 * chunk_size, 2 * threads)
        self._waiting: deque[_Waiting] = deque()
        self._hurried = 0  # of those that wait, how many need not wait for others
        self._closed = False
        self._changed = threading.Condition()
        self._numbers = count()
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="reading")
        # A stream that is never closed must not keep a program from ending.
        self._judging = threading.Thread(target=self._judge_chunks, name="judging", daemon=True)
        self._judging.start()

    def submit(self, image: AnyImage, *, name: str | None = None) -> Future[Verdict]:
        """Take one image; waits if very many are there already.

        An image that cannot be read has a verdict that says so, and no exception.

        Args:
            image: Path of an image file, bytes, an open file, a PIL image, or an array (H, W, 3), uint8. It
                may be changed or closed once this returns.
            name: What the verdict calls an image that is no path.

        Raises:
            TypeError, ValueError: It is nothing of that kind.
            RuntimeError: The stream is closed.
        """
        return self.submit_item(image_item(image, next(self._numbers), name=name))

    def submit_item(self, item: Item) -> Future[Verdict]:
        """Take one item of a source; as `submit`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self.room)
            self._check_open()
        prepared = start_preparing(self._workers, self._prepare, item)
        verdict: Future[Verdict] = Future()
        with self._changed:
            self._check_open()
            self._waiting.append(_Waiting(prepared, verdict, time.monotonic()))
            self._changed.notify_all()
        return verdict

    def flush(self) -> None:
        """Have all images that came so far judged without waiting for more; their futures tell when."""
        with self._changed:
            self._hurried = len(self._waiting)
            self._changed.notify_all()

    def close(self, *, cancel_futures: bool = False) -> None:
        """Take no more images, and wait until those that are there are judged.

        Args:
            cancel_futures: Judge no more of them than are being judged already.
        """
        with self._changed:
            self._closed = True
            if cancel_futures:
                for image in self._waiting:
                    image.verdict.cancel()
            self._changed.notify_all()
        self._judging.join()
        self._workers.shutdown(cancel_futures=cancel_futures)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the stream is closed and takes no more images; open another one")

    def _judge_chunks(self) -> None:
        while (chunk := self._next_chunk()) is not None:
            kept = [image for image in chunk if image.verdict.set_running_or_notify_cancel()]
            if not kept:
                continue
            try:
                verdicts = self._judge([image.prepared.result() for image in kept])
            except BaseException as error:  # whoever waits for a verdict is told
                for image in kept:
                    image.verdict.set_exception(error)
            else:
                for image, verdict in zip(kept, verdicts, strict=True):
                    image.verdict.set_result(verdict)

    def _next_chunk(self) -> list[_Waiting] | None:
        """Images that are to be judged now; None once the stream is closed and there are no more."""
        with self._changed:
            while not self._ready():
                if self._closed and not self._waiting:
                    return None
                self._changed.wait(self._seconds_left())
            chunk = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
            self._hurried = max(0, self._hurried - len(chunk))
            self._changed.notify_all()
            return chunk

    def _ready(self) -> bool:
        if not self._waiting:
            return False
        left = self._seconds_left()
        hurried = self._closed or self._hurried > 0
        return hurried or len(self._waiting) >= self._size or (left is not None and left <= 0)

    def _seconds_left(self) -> float | None:
        """Until the first image has waited enough; None if nobody counts."""
        if self._longest is None or not self._waiting:
            return None
        return min(self._waiting[0].since + self._longest - time.monotonic(), threading.TIMEOUT_MAX)


def check_wait(longest_wait: float | None) -> None:
    """Raise ValueError for what is no time to wait."""
    if longest_wait is not None and not longest_wait >= 0:
        raise ValueError(
            f"longest_wait is {longest_wait}; give seconds from 0 on, or None for full chunks only"
        )


def verdicts_in_order(items: Iterator[Item], stream: Stream) -> Iterator[Verdict]:
    """Verdicts on items that are listed on a thread of their own, each as soon as it is known.

    What is wrong with the listing is raised after the verdicts on what came before. If nobody takes verdicts
    any more, that thread ends with the item that it is waiting for.

    Args:
        items: May take their time.
        stream: Judges them; it is closed at the end.
    """
    coming: Queue[Future[Verdict] | BaseException | None] = Queue(stream.room)

    def submit_all() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                coming.put(stream.submit_item(item))
        except BaseException as error:
            end = error
        stream.flush()
        coming.put(end)

    threading.Thread(target=submit_all, name="listing", daemon=True).start()
    try:
        while isinstance(verdict := coming.get(), Future):
            yield verdict.result()
        if verdict is not None:
            raise verdict
    finally:
        stream.close(cancel_futures=True)
        with suppress(Empty):  # the thread may be waiting for room
            while True:
                coming.get_nowait()
