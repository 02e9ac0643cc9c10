"""The driver of a run in parts: lists images, gives segments to workers, and sees that all is judged."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from poolsieve.distributed.known_content import KnownContent
from poolsieve.distributed.listing import ListedImage, list_images, list_segments, unknown_images
from poolsieve.distributed.opening import Chosen
from poolsieve.distributed.run_folder import RunFolder, RunSettings
from poolsieve.distributed.segment_plans import SegmentPlans
from poolsieve.distributed.worker_pool import PartTask, WorkerPool
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.moderation.moderator import Totals
from poolsieve.schemes import CostMeter, Scheme

_LOOK_EVERY = 0.2
_AT_ONCE = 1000
_READERS = 16
"""Threads that read what was learnt from parts; in a store most of their time is waiting."""


@dataclass
class PartedRun:
    """A run in parts while it goes on and after it, as reports and summaries take a moderator.

    Attributes:
        settings: What run it is.
        chosen: What decides.
        totals: Counts, cost and estimated prevalence of the parts that are there.
        plans: Chooses the plans of segments.
        done: Segments that are judged.
        listed: Segments that are listed so far.
        listing_ended: Whether that is all.
    """

    settings: RunSettings
    chosen: Chosen
    totals: Totals
    plans: SegmentPlans
    done: int = 0
    listed: int = 0
    listing_ended: bool = False
    began_with: int = field(default=0)

    @classmethod
    def begin(cls, settings: RunSettings, chosen: Chosen) -> PartedRun:
        """A run of which nothing is known yet."""
        totals = Totals(CostMeter(chosen.bundle.config.cost))
        return cls(settings, chosen, totals, SegmentPlans(chosen.controller(), settings.segment))

    @property
    def bundle(self) -> Any:
        """The bundle."""
        return self.chosen.bundle

    @property
    def scheme(self) -> Scheme:
        """The scheme; with plans, that of the last segment."""
        if isinstance(self.chosen.scheme, Scheme):
            return self.chosen.scheme
        assert self.plans.controller is not None
        return self.plans.controller.scheme

    @property
    def description(self) -> str:
        """The scheme with its parameters, or all plans that may be followed."""
        return self.settings.scheme

    @property
    def seed(self) -> int:
        """Decides who shares a pool with whom."""
        return self.settings.seed

    def learn(self, segment: int, state: dict[str, Any]) -> None:
        """Count a part."""
        self.totals.restore(state)
        self.plans.learn(segment, state)
        self.done += 1

    def learn_parts(self, folder: RunFolder) -> list[int]:
        """Count the parts that are there; gives their numbers."""
        parts = folder.parts()
        with ThreadPoolExecutor(_READERS) as readers:
            for begin in range(0, len(parts), _AT_ONCE):  # what was read and not counted yet would pile up
                some = parts[begin : begin + _AT_ONCE]
                for segment, state in zip(some, readers.map(folder.state, some), strict=True):
                    self.learn(segment, state)
        return parts

    def end(self) -> None:
        """Let the totals tell of plans too, when all parts were counted."""
        self.totals.controller = self.plans.controller


def open_run(folder: RunFolder, chosen: Chosen) -> PartedRun:
    """What is known of a run from its parts, for reports."""
    run = PartedRun.begin(folder.needed_settings(), chosen)
    if chosen.bundle.hash != run.settings.bundle_hash:
        raise ValueError(
            f"{folder} was judged with another bundle than {run.settings.bundle} is now (its hash was "
            f"{run.settings.bundle_hash[:12]}); give that with --bundle"
        )
    for segment in run.learn_parts(folder):
        if run.plans.ready(segment):
            run.plans.plan_of(segment)
    run.end()
    return run


def moderate_in_parts(
    folder: RunFolder,
    run: PartedRun,
    make_pool: Callable[[], WorkerPool[Any]],
    *,
    outputs: OwnOutputs | None = None,
    on_progress: Callable[[PartedRun], None] = lambda run: None,
) -> None:
    """Judge what a run has not judged yet, and say so when all is done.

    Args:
        folder: The run's; its settings are there.
        run: A new one; it is kept up to date.
        make_pool: Makes the workers; it is asked only if there is something to do.
        outputs: Tells which files below a folder are our own.
        on_progress: Called now and then.

    Raises:
        OSError, ValueError: The source cannot be listed, or workers fail.
    """
    done = set(run.learn_parts(folder))
    run.began_with = run.totals.images
    segments = _Listing(folder, run.settings, outputs or OwnOutputs([str(folder)]))
    pool: WorkerPool[Any] | None = None
    waiting: int | None = None
    try:
        while True:
            while waiting is None and (waiting := segments.take()) is not None:
                run.listed = max(run.listed, waiting + 1)
                if waiting in done:
                    if run.plans.ready(waiting):
                        run.plans.plan_of(waiting)
                    waiting = None
            if waiting is not None and (pool is None or pool.has_room) and run.plans.ready(waiting):
                pool = pool or make_pool()
                pool.submit(PartTask(waiting, run.plans.plan_of(waiting)))
                waiting = None
                continue
            run.listing_ended = segments.ended
            if waiting is None and segments.ended and (pool is None or pool.idle):
                break
            for part in () if pool is None else pool.wait(_LOOK_EVERY):
                run.learn(part.segment, part.state)
            if pool is None and waiting is None:
                segments.wait(_LOOK_EVERY)
            on_progress(run)
    finally:
        segments.close()
        if pool is not None:
            pool.close()
    run.end()
    folder.finish()


class _Listing:
    """Lists on a thread of its own, so that workers need not wait for the end of it."""

    def __init__(self, folder: RunFolder, settings: RunSettings, outputs: OwnOutputs) -> None:
        self._segments: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._arrived = threading.Event()
        self.ended = False
        given = (folder, settings, outputs)
        threading.Thread(target=self._list, args=given, name="listing", daemon=True).start()

    def _list(self, folder: RunFolder, settings: RunSettings, outputs: OwnOutputs) -> None:
        end: BaseException | None = None
        try:
            for segment in list_segments(folder, settings, _images(folder, settings, outputs)):
                self._put(segment)
                if self._closed.is_set():
                    return
        except BaseException as error:
            end = error
        self._put(end)

    def _put(self, what: int | BaseException | None) -> None:
        self._segments.put(what)
        self._arrived.set()

    def take(self) -> int | None:
        """The next segment; None if there is none yet, or none any more."""
        if self.ended:
            return None
        try:
            found = self._segments.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        self.ended = found is None
        return found

    def wait(self, timeout: float) -> None:
        """Wait until something is listed, at most so many seconds."""
        self._arrived.wait(timeout)
        self._arrived.clear()

    def close(self) -> None:
        """List no further than the present segment."""
        self._closed.set()


def _images(folder: RunFolder, settings: RunSettings, outputs: OwnOutputs) -> Iterator[ListedImage]:
    images = list_images(settings.source, settings.column, outputs)
    if settings.since is None:
        yield from images
    elif not folder.listing_ended:
        yield from unknown_images(images, KnownContent(settings.since, settings.bundle_hash))
