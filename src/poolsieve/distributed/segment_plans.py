"""Which plan a segment follows: chosen from what earlier segments told, whoever judged them and when.

The first segment is the pilot: it follows the plan for the stated prevalence, or for a high one, and what it
tells chooses for the next. From then on segment s follows what segments 0 … s − behind(s) have told, taken in
their order. That depends on the listing and the seed only; and the further a run is, the more segments may be
judged at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from poolsieve.planning.plan_controller import PlanController
from poolsieve.schemes import PrevalenceEstimator

LEAST_BEHIND = 16
"""Segments that may be judged at once from the beginning, but for the pilot."""
SHARE_BEHIND = 8
"""An eighth of a run may be judged at once later."""


def told_before(segment: int) -> int:
    """How many segments, from the first on, must be judged before a segment's plan is chosen."""
    return 0 if segment == 0 else max(1, segment - max(LEAST_BEHIND, segment // SHARE_BEHIND) + 1)


class SegmentPlans:
    """Chooses the plans of segments, one after the other.

    Args:
        controller: Chooses, as at the beginning of a run; None if the scheme was given.
        chunks: Chunks of a segment.
    """

    def __init__(self, controller: PlanController | None, chunks: int) -> None:
        self.controller, self._chunks = controller, chunks
        self._told: dict[int, tuple[PrevalenceEstimator, int]] = {}
        self._observed = 0

    def learn(self, segment: int, state: Mapping[str, Any]) -> None:
        """Hear what a segment told; in any order."""
        if self.controller is not None:
            told = PrevalenceEstimator(np.array(state["likelihood"]), int(state["groups"]))
            self._told[segment] = told, state["meter"]["images"]

    def ready(self, segment: int) -> bool:
        """Whether enough is known to choose the plan of a segment."""
        if self.controller is None:
            return True
        return all(earlier in self._told for earlier in range(self._observed, told_before(segment)))

    def plan_of(self, segment: int) -> int | None:
        """Place of the plan that a segment follows; None if the scheme was given.

        To be asked for segments in their order, when they are `ready`.
        """
        if self.controller is None:
            return None
        while self._observed < told_before(segment):
            fresh, images = self._told.pop(self._observed)
            if fresh.groups:
                self.controller.learn(fresh, images, segment * self._chunks - 1)
            self._observed += 1
        return self.controller.place
