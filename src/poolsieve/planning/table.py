"""The best plan for every prevalence, made beforehand so that a running moderation can change at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from poolsieve.bundles.config import PLANS_FILE
from poolsieve.bundles.recordings import Recordings
from poolsieve.planning.plans import FORMAT, Plan, Target
from poolsieve.planning.search import search
from poolsieve.schemes import make_scheme
from poolsieve.schemes.cost_model import Price

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle

PREVALENCES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""What plans are made for; in between, the plan for the next higher one is taken."""


def make_table(
    recordings: Recordings,
    pool_sizes: Sequence[int],
    price: Price,
    target: Target | None = None,
    *,
    gated: bool,
) -> tuple[Plan, ...]:
    """The best plan at each of `PREVALENCES`; see `poolsieve.planning.search.search`."""
    target = target or Target()
    return tuple(search(recordings, p, target, pool_sizes, price, gated=gated).best for p in PREVALENCES)


def table_bytes(plans: Sequence[Plan]) -> bytes:
    """As a JSON file."""
    values = {"format": FORMAT, "plans": [plan.to_json() for plan in plans]}
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()


def table_from(data: bytes) -> tuple[Plan, ...]:
    """The reverse of `table_bytes`.

    Raises:
        ValueError: It is no such file.
    """
    values = json.loads(data)
    if (
        not isinstance(values, dict)
        or values.get("format") != FORMAT
        or not isinstance(values.get("plans"), list)
    ):
        raise ValueError(
            f"not a table of plans of format {FORMAT}; make it anew with: poolsieve bundles replan BUNDLE"
        )
    plans = tuple(Plan.from_json(value if isinstance(value, dict) else {}) for value in values["plans"])
    prevalences = [plan.prevalence for plan in plans]
    if not plans or prevalences != sorted(set(prevalences)):
        raise ValueError("plans must be for ascending prevalences")
    return plans


def table_of(bundle: Bundle, target: Target) -> tuple[Plan, ...]:
    """A bundle's plans for a target: read from the bundle if it is the usual one, else made now."""
    if target == Target() and PLANS_FILE in bundle.config.files:
        return table_from(bundle.read(PLANS_FILE))
    config = bundle.config
    gated = config.merge == "gated"
    return make_table(bundle.recordings(), config.pool_sizes, config.cost, target, gated=gated)


def plan_problems(bundle: Bundle) -> list[str]:
    """What is wrong with the plans that a bundle holds, for people; nothing if it holds none."""
    if PLANS_FILE not in bundle.config.files:
        return []
    try:
        for plan in table_from(bundle.read(PLANS_FILE)):
            make_scheme(plan.scheme, bundle.config.pool_sizes, **plan.parameters)
    except (TypeError, ValueError) as error:
        return [f"{bundle.path / PLANS_FILE}: {error}"]
    return []
