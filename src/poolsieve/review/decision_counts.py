"""Decisions and chunks of a policy as numbers, read from the store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Integer, case, cast, func, select

from poolsieve.review.policy_quality import SampledClear
from poolsieve.review.thresholds import DecidedImages
from poolsieve.schemes.stages import BY_INDIVIDUAL
from poolsieve.store import Store
from poolsieve.store.schema import chunks, review_tasks, verdicts

_MOST_SCORES = 20_000


@dataclass(frozen=True)
class DecisionCounts:
    """What people decided about one policy since some time.

    Attributes:
        flagged: Flagged images.
        decided: How many of them are decided.
        bad: How many of those were rejected.
        clear: Sampled clear images by rate.
    """

    flagged: int
    decided: int
    bad: int
    clear: tuple[SampledClear, ...]


def outcomes(store: Store, policy: str, since: float) -> DecisionCounts:
    """What was flagged or sampled since then, and what people said."""
    table = review_tasks.c
    decided = func.count(table.outcome)
    rejected = func.count(case((table.outcome == "rejected", 1)))
    query = (
        select(table.status, table.weight, func.count(), decided, rejected)
        .where((table.policy == policy) & (table.created_at >= since))
        .group_by(table.status, table.weight)
        .order_by(table.weight)
    )
    with store.database.reading() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    flagged = [row[2:] for row in rows if row[0] == "flagged"]
    clear = tuple(SampledClear(*row[1:]) for row in rows if row[0] == "clear")
    total, decided_number, bad = (sum(row[place] for row in flagged) for place in range(3))
    return DecisionCounts(total, decided_number, bad, clear)


def decided_images(
    store: Store, policy: str, since: float, seen: DecisionCounts
) -> tuple[DecidedImages, DecidedImages]:
    """Decided flags, the newest ones, and decided sampled clear images; what waits counts like what does not.

    Args:
        store: Where they are.
        policy: Of this one.
        since: Since then.
        seen: The same in numbers.
    """
    table = review_tasks.c
    wanted = (table.policy == policy) & (table.created_at >= since) & table.outcome.is_not(None)
    newest = table.decided_at.desc()
    flags = select(table.score, table.outcome).where(wanted & (table.status == "flagged"))
    tested = case((verdicts.c.decided_by == BY_INDIVIDUAL, table.score))
    clear = select(tested.label("score"), table.outcome, table.weight).join(
        verdicts, verdicts.c.id == table.verdict_id
    )
    clear = clear.where(wanted & (table.status == "clear"))
    with store.database.reading() as connection:
        flagged_rows = connection.execute(flags.order_by(newest).limit(_MOST_SCORES)).all()
        clear_rows = connection.execute(clear.order_by(newest).limit(_MOST_SCORES)).all()
    more = {one.weight: one.weight * one.sampled / one.decided for one in seen.clear if one.decided}
    each = seen.flagged / max(len(flagged_rows), 1)
    return (
        _decided(flagged_rows, [each] * len(flagged_rows)),
        _decided(clear_rows, [more[row.weight] for row in clear_rows]),
    )


def _decided(rows: Sequence[Any], weights: list[float]) -> DecidedImages:
    return DecidedImages(
        np.array([row.score for row in rows], dtype=np.float64),  # NULL becomes NaN
        np.array([row.outcome == "rejected" for row in rows], dtype=bool),
        np.array(weights, dtype=np.float64),
    )


def prevalence(seen: DecisionCounts, images: int) -> float:
    """Share of bad images among all, as people found; NaN if nobody has decided yet."""
    if not images or not seen.decided or not any(one.decided for one in seen.clear):
        return math.nan
    missed = sum(one.weight * one.sampled * one.bad / one.decided for one in seen.clear if one.decided)
    return min(1.0, (seen.flagged * seen.bad / seen.decided + missed) / images)


def policies(store: Store) -> list[str]:
    """Policies that have judged images."""
    with store.database.reading() as connection:
        return sorted(connection.execute(select(chunks.c.policy).distinct()).scalars())


def chunk_series(store: Store, since: float, step: float, policy: str | None = None) -> list[dict[str, Any]]:
    """Sums over chunks for each step of time, oldest first: images, flagged, errors, cost, seconds."""
    bucket = cast(func.floor((chunks.c.created_at - since) / step), Integer).label("bucket")
    table = chunks.c
    query = select(
        bucket,
        func.sum(table.images).label("images"),
        func.sum(table.flagged).label("flagged"),
        func.sum(table.errors).label("errors"),
        func.sum(table.cost * table.images).label("cost"),
        func.sum(case((table.cost.is_not(None), table.images), else_=0)).label("costed"),
        func.sum(table.seconds).label("seconds"),
        func.sum(case((table.capacity.is_not(None), table.images), else_=0)).label("filled"),
        func.sum(table.capacity).label("capacity"),
    ).where(table.created_at >= since)
    if policy is not None:
        query = query.where(table.policy == policy)
    with store.database.reading() as connection:
        rows = connection.execute(query.group_by(bucket).order_by(bucket)).mappings()
        return [{name: value or 0 for name, value in row.items()} for row in rows]


def decision_series(store: Store, policy: str, since: float, step: float) -> list[dict[str, int]]:
    """Decided flags for each step of time, and how many of them were rejected."""
    table = review_tasks.c
    bucket = cast(func.floor((table.decided_at - since) / step), Integer).label("bucket")
    wanted = (table.policy == policy) & (table.status == "flagged") & (table.decided_at >= since)
    query = select(
        bucket, func.count().label("decided"), func.count(case((table.outcome == "rejected", 1))).label("bad")
    )
    with store.database.reading() as connection:
        rows = connection.execute(query.where(wanted).group_by(bucket).order_by(bucket)).mappings()
        return [dict(row) for row in rows]


def plans_in_force(store: Store, limit: int = 20) -> list[dict[str, Any]]:
    """Schemes by policy with when they were first and last used, the newest first."""
    table = chunks.c
    query = (
        select(
            table.policy,
            table.scheme,
            func.min(table.created_at).label("first"),
            func.max(table.created_at).label("last"),
            func.sum(table.images).label("images"),
        )
        .group_by(table.policy, table.scheme)
        .order_by(func.max(table.created_at).desc())
        .limit(limit)
    )
    with store.database.reading() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]
