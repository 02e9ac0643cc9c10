"""Runs in parts with networks that see the truth, by workers of their own or within the test's process."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import planted
from planted import WAYS, Doubting, moderator_by, planted_bundle, planted_plans

from poolsieve.distributed import RunFolder, RunSettings
from poolsieve.distributed.driving import PartedRun, moderate_in_parts
from poolsieve.distributed.opening import Chosen
from poolsieve.distributed.segment_judging import SegmentJudge
from poolsieve.distributed.worker_pool import Done, Event, WorkerPool
from poolsieve.schemes import make_scheme


@dataclass(frozen=True)
class PlantedOpening:
    """Opens planted moderators.

    Attributes:
        way: One of `planted.WAYS`.
        delay: Seconds that every chunk takes more.
        notes: A folder in which workers leave their process numbers.
        options: What a command was asked for, which is kept with the run.
    """

    way: str = "adaptive"
    delay: float = 0.0
    notes: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def choose(self):
        bundle = planted_bundle()
        if WAYS[self.way] is None:
            return Chosen(bundle, planted_plans(), None)
        name, parameters = WAYS[self.way]
        return Chosen(bundle, make_scheme(name, bundle.config.pool_sizes, **parameters), None)

    def open(self, seed, threads):
        if self.notes is not None:
            Path(self.notes, str(os.getpid())).touch()
        if self.delay:
            planted.Doubting = type("Slow", (Doubting,), {"front": _slow(self.delay)})
        return moderator_by(self.way, seed=seed)


def _slow(delay):
    def front(self, images):
        time.sleep(delay)
        return Doubting.front(self, images)

    return front


class InlinePool(WorkerPool):
    """One worker: this process."""

    def __init__(self, opening, run):
        super().__init__(1)
        self._given, self._queue = (opening, run, None), []

    def _start(self):
        return SegmentJudge(*self._given)

    def _send(self, worker, task):
        self._queue.append((worker, task))

    def _events(self, workers, timeout):
        taken, self._queue = self._queue, []
        return [Event(w, Done(t.segment, w.judge(t.segment, t.plan))) for w, t in taken]

    def _stop(self, worker):
        pass


def settings_for(source, opening, *, seed=7, segment=1, since=None):
    chosen = opening.choose()
    controller = chosen.controller()
    return RunSettings(
        source=tuple(map(str, source)) if isinstance(source, list | tuple) else (str(source),),
        column=None,
        bundle="planted",
        bundle_hash=chosen.bundle.hash,
        scheme=str(controller or chosen.scheme),
        options={},
        plans=(),
        seed=seed,
        chunk=(controller or chosen.scheme).chunk_size,
        segment=segment,
        since=since,
    )


def run_parts(out, source, opening, make_pool=None, **settings):
    """Run, or go on with, a run in parts; gives its folder and what is known of it."""
    folder = RunFolder(str(out))
    if folder.settings() is None:
        folder.begin(settings_for(source, opening, **settings))
    run = PartedRun.begin(folder.needed_settings(), opening.choose())
    moderate_in_parts(folder, run, make_pool or (lambda: InlinePool(opening, str(out))))
    return folder, run
