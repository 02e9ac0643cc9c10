"""Judging one segment of a run, wherever that is done."""

from __future__ import annotations

import threading
from itertools import chain, islice
from typing import Any

from poolsieve.distributed.listing import ListedItems
from poolsieve.distributed.opening import Opening
from poolsieve.distributed.run_folder import RunFolder
from poolsieve.moderation.verdicts import Verdict


class SegmentJudge:
    """Judges segments and writes their parts. A worker has one.

    Two threads may use it: while one judges its segment, the other reads the first images of the next.

    Args:
        opening: Makes the moderator.
        run: The run's folder.
        threads: Threads that the engine computes on; None for its own choice.
    """

    def __init__(self, opening: Opening, run: str, threads: int | None) -> None:
        self._folder = RunFolder(run)
        self._settings = self._folder.needed_settings()
        self._moderator = opening.open(self._settings.seed, threads)
        self._items = ListedItems()
        self._judging = threading.Lock()

    def judge(self, segment: int, plan: int | None) -> dict[str, Any]:
        """Judge a segment and write its part, unless another worker did meanwhile.

        A worker may have died between writing a part and telling of it, and actors outlive a driver that was
        killed by a moment, so a driver may ask for what is there already.

        Args:
            segment: Its number.
            plan: Place of the plan that it follows; None if the scheme was given.

        Returns:
            What was learnt: the totals' state, which stands in the part too.
        """
        if self._folder.has_part(segment):
            return self._folder.state(segment)
        settings, moderator = self._settings, self._moderator
        run = moderator.new_run()
        run.chunk, run.position = segment * settings.segment, segment * settings.images
        if plan is not None and run.totals.controller is not None:
            run.totals.controller.stay_with(plan)
        images = self._folder.read_listing(segment)
        chunks = moderator.prepare_chunks(self._items.items(images), settings.chunk, run)
        # Members of an archive come in their order, so they are not read before those of the segment before.
        ahead = 0 if any(image.archive is not None for image in images) else 1
        first = list(islice(chunks, ahead))
        verdicts: list[Verdict] = []
        with self._judging:
            chunks = chain(first, chunks)
            while True:
                with run.totals.meter.time("reading"):
                    prepared = next(chunks, None)
                if prepared is None:
                    break
                verdicts += moderator.judge_chunk(prepared, run)
            state = {**run.totals.state(), "plan": plan}
            state.pop("plans", None)
            if not self._folder.has_part(segment):
                self._folder.write_part(segment, verdicts, state)
        return state
