"""Changing plans while the share of bad images changes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from poolsieve.planning.plans import Plan
from poolsieve.schemes import Decision, Prevalence, PrevalenceEstimator, Scheme, make_scheme

CAUTIOUS = 0.1
"""Prevalence that is planned for while nothing is known of it."""
MEMORY = 2000
"""Images that the running estimate rests on. Networks are calibrated on about as many, so that more would
promise an interval that the calibration cannot keep."""
CHANGED = 7.0
"""Log-likelihood that must be lost by giving a chunk and those before it the same prevalence, to believe
that it has changed: by chance that happens once in some 5,000 chunks."""
_DIGITS = 6
"""Decimals of likelihoods, live as in saved states, so that a resumed run goes on alike."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Switch:
    """A change of plan.

    Attributes:
        chunk: The first chunk that the new plan is for.
        estimate: The prevalence that led to it.
        plan: The new plan.
    """

    chunk: int
    estimate: Prevalence
    plan: Plan

    def __str__(self) -> str:
        return f"from chunk {self.chunk} on: prevalence {self.estimate}, {self.plan.describe()}"


class PlanController:
    """Keeps to the plan that suits the prevalence of the last images.

    It starts with the plan for the stated prevalence, or for a high one if none is stated. Then it takes the
    plan for the upper end of the estimate's interval. While the estimate lies below what the plan is for
    and the interval does not end below the next lower plan, the plan stays.

    Args:
        plans: The best plan for each prevalence, ascending.
        pool_sizes: Sizes that the bundle has networks for.
        prevalence: The stated prevalence, if any.

    Attributes:
        first: The plan to begin with.
        plan: The present plan.
        scheme: The present plan's scheme.
        switches: All changes so far, those of a run that this one goes on from too.
    """

    def __init__(self, plans: Sequence[Plan], pool_sizes: Sequence[int], prevalence: float | None) -> None:
        self._plans, self._stated = tuple(plans), prevalence
        self._schemes = [make_scheme(plan.scheme, pool_sizes, **plan.parameters) for plan in plans]
        sizes = {scheme.chunk_size for scheme in self._schemes}
        if len(sizes) != 1:
            raise ValueError(f"plans that take turns must have chunks of one size, not {sorted(sizes)}")
        self.chunk_size = sizes.pop()
        self._recent = PrevalenceEstimator()
        self._place = self._place_for(CAUTIOUS if prevalence is None else prevalence)
        self._stays = False
        self.first = self.plan
        self.switches: list[Switch] = []

    @property
    def place(self) -> int:
        """Place of the present plan among all."""
        return self._place

    @property
    def plan(self) -> Plan:
        """The present plan."""
        return self._plans[self._place]

    @property
    def scheme(self) -> Scheme:
        """The present plan's scheme."""
        return self._schemes[self._place]

    def estimate(self) -> Prevalence | None:
        """Prevalence among the last images."""
        return self._recent.estimate()

    def observe(self, decision: Decision, images: int, chunk: int) -> Switch | None:
        """Learn from a chunk; gives the change of plan that follows from it, if any."""
        fresh = PrevalenceEstimator()
        fresh.add(decision.likelihoods, decision.group_sizes, decision.group_weight)
        return self.learn(fresh, images, chunk)

    def learn(self, fresh: PrevalenceEstimator, images: int, chunk: int) -> Switch | None:
        """Learn what images tell of the prevalence; gives the change of plan that follows from it, if any.

        Args:
            fresh: What they tell.
            images: How many there are.
            chunk: The last chunk that the present plan is for.
        """
        before = self._recent.log_likelihood
        together = before + fresh.log_likelihood
        lost = before.max() + fresh.log_likelihood.max() - together.max()
        if self._recent.groups and lost > CHANGED:
            self._recent = fresh  # what was before tells nothing of what is now
        else:
            self._recent.forget(max(0.0, 1 - images / MEMORY))
            self._recent.log_likelihood = self._recent.log_likelihood + fresh.log_likelihood
            self._recent.groups += fresh.groups
        self._recent.log_likelihood = self._recent.log_likelihood.round(_DIGITS)
        return self._choose(chunk + 1)

    def stay_with(self, place: int) -> None:
        """Follow the plan at that place from now on, whatever is learnt."""
        self._place, self._stays = place, True

    def _choose(self, chunk: int) -> Switch | None:
        estimate = self._recent.estimate()
        if estimate is None or self._stays:
            return None
        wanted = self._place_for(estimate.high)
        if wanted > self._place and estimate.value <= self.plan.prevalence:
            return None
        before, self._place = self.scheme, wanted
        if str(self.scheme) == str(before):
            return None
        self.switches.append(Switch(chunk, estimate, self.plan))
        _LOG.info("%s", self.switches[-1])
        return self.switches[-1]

    def _place_for(self, prevalence: float) -> int:
        prevalences = [plan.prevalence for plan in self._plans]
        return min(int(np.searchsorted(prevalences, prevalence)), len(prevalences) - 1)

    def state(self) -> dict[str, Any]:
        """Plain values from which `restore` goes on."""
        return {
            "likelihood": self._recent.log_likelihood.tolist(),
            "groups": self._recent.groups,
            "place": self._place,
            "switches": [[s.chunk, astuple(s.estimate), s.plan.prevalence] for s in self.switches],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier run's state."""
        self._recent = PrevalenceEstimator(np.array(state["likelihood"]), int(state["groups"]))
        self._place = int(state["place"])
        self.switches = [
            Switch(int(chunk), Prevalence(*estimate), self._plans[self._place_for(prevalence)])
            for chunk, estimate, prevalence in state["switches"]
        ]

    def adopt(self, state: dict[str, Any]) -> None:
        """Begin with what a controller of other plans has learnt of the prevalence."""
        self._recent = PrevalenceEstimator(np.array(state["likelihood"]), int(state["groups"]))
        if (estimate := self._recent.estimate()) is not None:
            self._place = self._place_for(estimate.high)

    def __str__(self) -> str:
        stated = "unknown" if self._stated is None else self._stated
        digest = hashlib.sha256("; ".join(map(str, self._schemes)).encode()).hexdigest()
        return f"auto(prevalence={stated}, chunk={self.chunk_size}, plans={digest[:12]})"
