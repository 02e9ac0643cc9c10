"""Plans that a policy could follow, what each would change, and which one to suggest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from poolsieve.planning.plans import Plan
from poolsieve.store.schema import canonical

_CHEAPER = 0.01
"""Cost that a plan must save to be worth a change."""
_SAME = 0.0005
"""Sensitivities that differ by less are the same."""


@dataclass(frozen=True)
class Offers:
    """Plans for one prevalence, compared on the same recorded images.

    Attributes:
        bundle: Hash of the bundle that they are for.
        prevalence: What they are for.
        plans: By ascending cost.
        recorded: Bad and clear images that they were compared on.
    """

    bundle: str
    prevalence: float
    plans: Sequence[Plan]
    recorded: tuple[int, int]

    def find(self, key: str) -> Plan | None:
        """The plan of that key."""
        return next((plan for plan in self.plans if plan_key(plan) == key), None)


@dataclass(frozen=True)
class PlanChange:
    """What a plan is expected to do to 1,000 images.

    Attributes:
        key: Tells the plan.
        plan: The plan.
        flags: Images that it flags.
        misses: Bad images that it does not flag.
    """

    key: str
    plan: Plan
    flags: float
    misses: float


def plan_key(plan: Plan) -> str:
    """A short name that tells a plan from all others."""
    return hashlib.sha256(canonical(plan.to_json()).encode()).hexdigest()[:16]


def plan_changes(offers: Offers, prevalence: float) -> list[PlanChange]:
    """What each plan does where so many images are bad."""
    return [
        PlanChange(
            plan_key(plan),
            plan,
            1000 * (prevalence * plan.sensitivity.value + (1 - prevalence) * (1 - plan.specificity.value)),
            1000 * prevalence * (1 - plan.sensitivity.value),
        )
        for plan in offers.plans
    ]


def suggested_plan(
    options: Sequence[PlanChange], sensitivity: float, cost: float, kept: str
) -> PlanChange | None:
    """The plan to suggest, if any: a more careful one after a broken promise, else one that saves at no loss.

    Args:
        options: By ascending cost.
        sensitivity: What the plan in force promises.
        cost: What it is expected to cost.
        kept: What became of the promise; see `policy_quality.against`.
    """
    for one in options:
        gained = one.plan.sensitivity.value - sensitivity
        if kept == "broken" and gained > _SAME:
            return one
        if kept != "broken" and gained > -_SAME and one.plan.cost.value < cost - _CHEAPER:
            return one
    return None
