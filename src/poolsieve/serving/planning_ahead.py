"""Comparing plans for the review page, in the background of a running service."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from poolsieve.planning.plans import Plan, Target
from poolsieve.planning.search import search
from poolsieve.planning.table import PREVALENCES
from poolsieve.review.plan_offers import Offers, plan_key
from poolsieve.serving.policies import Policy

_LOG = logging.getLogger(__name__)
_WITHIN = (0.005, 0.01, 0.02, 0.05)
"""Losses of sensitivity against individual testing that plans are compared for."""


class PlansAhead:
    """Compares plans when they are asked for, one policy at a time; what was compared is kept.

    Args:
        policies: By name.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = dict(policies)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="planning")
        self._made: dict[tuple[str, float], Future[Offers]] = {}
        self._lock = threading.Lock()

    def has(self, policy: str) -> bool:
        """Whether there is anything to plan from."""
        return policy in self._policies and self._policies[policy].bundle.has_recordings

    def offers(self, policy: str, prevalence: float, *, start: bool = False) -> Offers | None:
        """Plans for the next prevalence that plans are made for; None while they are not there.

        Args:
            policy: One that `has` something to plan from.
            prevalence: Share of bad images.
            start: Begin to compare them.
        """
        place = next((known for known in PREVALENCES if known >= prevalence), PREVALENCES[-1])
        with self._lock:
            made = self._made.get((policy, place))
            if made is None and start:
                made = self._made[policy, place] = self._worker.submit(self._compare, policy, place)
        if made is None or not made.done():
            return None
        if (error := made.exception()) is not None:
            _LOG.error("plans of %s could not be compared", policy, exc_info=error)
            with self._lock:
                self._made.pop((policy, place), None)
            return None
        return made.result()

    def being_compared(self, policy: str) -> bool:
        """Whether plans of a policy are on their way."""
        with self._lock:
            return any(name == policy and not made.done() for (name, _), made in self._made.items())

    def stop(self) -> None:
        """Compare no more."""
        self._worker.shutdown(cancel_futures=True)

    def _compare(self, policy: str, prevalence: float) -> Offers:
        served = self._policies[policy]
        recordings, config = served.bundle.recordings(), served.bundle.config
        gated = config.merge == "gated"
        found: dict[str, Plan] = {}
        for within in _WITHIN:
            target = Target(within=within)
            choices = search(recordings, prevalence, target, config.pool_sizes, config.cost, gated=gated)
            for plan in (choices.best, choices.individual):
                fitted = replace(plan, parameters={**plan.parameters, "chunk": served.line.full})
                if served.can_follow(fitted):
                    found.setdefault(plan_key(fitted), fitted)
        plans = sorted(found.values(), key=lambda plan: plan.cost.value)
        bad = int(recordings.bad.sum())
        return Offers(served.bundle.hash, prevalence, plans, (bad, len(recordings.bad) - bad))
