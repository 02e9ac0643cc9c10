"""Review tasks: what people look at, one holder each by lease, with decisions, undo and escalation."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, or_, select, update

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import decisions, review_tasks, verdicts

if TYPE_CHECKING:
    import numpy as np

    from poolsieve.store.users import User

OUTCOMES = {"approve": "approved", "reject": "rejected"}
"""What a decision makes of a task: approved images may stay, rejected ones are bad."""
SENIOR = ("lead", "admin")
"""Roles that get escalated tasks."""
_NEIGHBOURS = 50
_RECENT = 200


class LeaseLostError(ValueError):
    """A task that is no longer its reviewer's: the lease ran out, or it was decided."""


@dataclass(frozen=True)
class Task:
    """A task with what is shown of its verdict.

    Attributes:
        id: Its number.
        verdict_id: The verdict it asks about.
        policy: The bundle that judged.
        status: "flagged", or "clear" for a sampled image.
        reason: "flagged", "sampled" or "escalated".
        weight: Images that it stands for.
        score: The verdict's.
        rank: Place when sorted by score, which does not tell a sampled image.
        key_id: The API key that sent the image.
        job_id: The job that it belongs to.
        created_at: When it was flagged or sampled.
        holder: Number of the user who has it.
        lease_expires_at: Until when.
        outcome: "approved", "rejected", or None while it is open.
        decided_at: When it was decided.
        name: What the sender calls the image.
        sha256: Its hash.
    """

    id: int
    verdict_id: str
    policy: str
    status: str
    reason: str
    weight: float
    score: float | None
    rank: float
    key_id: str | None
    job_id: str | None
    created_at: float
    holder: int | None
    lease_expires_at: float | None
    outcome: str | None
    decided_at: float | None
    name: str
    sha256: str | None


@dataclass(frozen=True)
class TaskFilter:
    """Which open tasks, and in which order.

    Attributes:
        policy: Only of this one.
        low: Only with at least this rank.
        high: Only with at most this rank.
        since: Only since then.
        until: Only before then.
        key_id: Only of this API key.
        job_id: Only of this job.
        reason: Only "flagged", "sampled" or "escalated" ones.
        skipped: Not these.
        order: "score" (highest first), "oldest" or "newest".
    """

    policy: str | None = None
    low: float | None = None
    high: float | None = None
    since: float | None = None
    until: float | None = None
    key_id: str | None = None
    job_id: str | None = None
    reason: str | None = None
    skipped: tuple[int, ...] = ()
    order: str = "score"

    def condition(self) -> ColumnElement[bool]:
        """As a condition on the table."""
        table = review_tasks.c
        equal = {"policy": self.policy, "key_id": self.key_id, "job_id": self.job_id, "reason": self.reason}
        conditions = [table[name] == value for name, value in equal.items() if value is not None]
        if self.low is not None:
            conditions.append(table.rank >= self.low)
        if self.high is not None:
            conditions.append(table.rank <= self.high)
        if self.since is not None:
            conditions.append(table.created_at >= self.since)
        if self.until is not None:
            conditions.append(table.created_at < self.until)
        if self.skipped:
            conditions.append(table.id.not_in(self.skipped))
        return and_(table.outcome.is_(None), *conditions)

    def sorting(self) -> list[Any]:
        """As an order of the table."""
        table = review_tasks.c
        orders: dict[str, list[Any]] = {
            "score": [table.rank.desc(), table.id],
            "oldest": [table.created_at, table.id],
            "newest": [table.created_at.desc(), table.id],
        }
        if self.order not in orders:
            raise ValueError(f"order {self.order!r}: there are {', '.join(orders)}")
        return orders[self.order]


def _tasks() -> Select[Any]:
    return select(review_tasks, verdicts.c.name, verdicts.c.sha256).join(
        verdicts, verdicts.c.id == review_tasks.c.verdict_id
    )


def create(
    connection: Connection,
    wanted: Sequence[tuple[dict[str, Any], float]],
    now: float,
    rng: np.random.Generator,
) -> None:
    """Add tasks to the transaction that records their verdicts.

    Args:
        connection: The transaction.
        wanted: Rows of verdicts with the tasks' weights.
        now: The time.
        rng: Draws the rank of sampled images, from flagged ones.
    """
    rows = []
    for verdict, weight in wanted:
        flagged = verdict["status"] == "flagged"
        score = 0.0 if verdict["score"] is None else verdict["score"]
        rank = score if flagged else _borrowed_rank(connection, verdict["policy"], rng)
        same = {name: verdict[name] for name in ("policy", "status", "score", "key_id", "job_id")}
        reason = "flagged" if flagged else "sampled"
        made = {
            "verdict_id": verdict["id"],
            "reason": reason,
            "weight": weight,
            "rank": rank,
            "created_at": now,
        }
        rows.append({**same, **made})
    if rows:
        connection.execute(insert(review_tasks), rows)


def _borrowed_rank(connection: Connection, policy: str, rng: np.random.Generator) -> float:
    """A rank between those of two flagged images, so that sorting does not tell a sampled one."""
    flagged = (review_tasks.c.status == "flagged") & (review_tasks.c.policy == policy)
    query = select(review_tasks.c.rank).where(flagged).order_by(review_tasks.c.id.desc()).limit(_NEIGHBOURS)
    ranks = connection.execute(query).scalars().all()
    if not ranks:
        return 0.5 + 0.5 * float(rng.random())
    first, second = rng.integers(len(ranks), size=2)
    share = float(rng.random())
    return ranks[first] * share + ranks[second] * (1 - share)


def close(connection: Connection, verdict_id: str, decision: str, now: float) -> int | None:
    """Close the task of a verdict that was decided elsewhere; its number, or None if it has none."""
    closed = update(review_tasks).where(review_tasks.c.verdict_id == verdict_id).returning(review_tasks.c.id)
    values = {"outcome": OUTCOMES[decision], "decided_at": now, "holder": None, "lease_expires_at": None}
    number: int | None = connection.execute(closed.values(values)).scalar_one_or_none()
    return number


class ReviewTasks:
    """The queue of reviewers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, user: User, count: int, seconds: float, wanted: TaskFilter = TaskFilter()) -> list[Task]:
        """Up to so many open tasks, now the user's for so long: first those held already, then free ones."""
        now = self._database.now()
        mine = and_(review_tasks.c.holder == user.id, review_tasks.c.lease_expires_at >= now)
        free = or_(review_tasks.c.lease_expires_at.is_(None), review_tasks.c.lease_expires_at < now)
        base = wanted.condition() & self._visible(user)
        with self._database.writing() as connection:
            numbers: list[int] = []
            for condition in (mine, free):
                query = select(review_tasks.c.id).where(base & condition).order_by(*wanted.sorting())
                query = query.limit(count - len(numbers)).with_for_update(skip_locked=True)
                numbers += connection.execute(query).scalars().all()
            taken = update(review_tasks).where(review_tasks.c.id.in_(numbers) & or_(mine, free))
            values = {"holder": user.id, "lease_expires_at": now + seconds}
            got = set(connection.execute(taken.values(values).returning(review_tasks.c.id)).scalars())
            query = _tasks().where(review_tasks.c.id.in_(got)).order_by(*wanted.sorting())
            return [Task(**row) for row in connection.execute(query).mappings()]

    @staticmethod
    def _visible(user: User) -> ColumnElement[bool]:
        return review_tasks.c.id.is_not(None) if user.role in SENIOR else review_tasks.c.reason != "escalated"

    def hold(self, user: User, number: int, seconds: float) -> Task:
        """One task by its number, now the user's for so long.

        Raises:
            LeaseLostError: Another has it, or it is decided, or it is for leads.
        """
        now = self._database.now()
        free = or_(
            review_tasks.c.holder == user.id,
            review_tasks.c.lease_expires_at.is_(None),
            review_tasks.c.lease_expires_at < now,
        )
        wanted = (review_tasks.c.id == number) & review_tasks.c.outcome.is_(None) & free & self._visible(user)
        with self._database.writing() as connection:
            values = {"holder": user.id, "lease_expires_at": now + seconds}
            done = connection.execute(update(review_tasks).where(wanted).values(values)).rowcount
        task = self.get(number)
        if not done or task is None:
            raise LeaseLostError(f"task {number} is with another reviewer, or decided")
        return task

    def release(self, user: User, numbers: Collection[int]) -> None:
        """Give tasks back undecided."""
        mine = review_tasks.c.id.in_(numbers) & (review_tasks.c.holder == user.id)
        with self._database.writing() as connection:
            connection.execute(update(review_tasks).where(mine).values(holder=None, lease_expires_at=None))

    def get(self, number: int) -> Task | None:
        """A task by its number."""
        return self._one(review_tasks.c.id == number)

    def of_verdict(self, verdict_id: str) -> Task | None:
        """The task of a verdict, if it has one."""
        return self._one(review_tasks.c.verdict_id == verdict_id)

    def _one(self, wanted: ColumnElement[bool]) -> Task | None:
        with self._database.reading() as connection:
            row = connection.execute(_tasks().where(wanted)).mappings().one_or_none()
        return None if row is None else Task(**row)

    def counts(self, wanted: TaskFilter = TaskFilter(), user: User | None = None) -> dict[str, int]:
        """Open tasks by reason; those that the user may see."""
        condition = wanted.condition()
        if user is not None:
            condition &= self._visible(user)
        query = select(review_tasks.c.reason, func.count().label("number")).where(condition)
        with self._database.reading() as connection:
            rows = connection.execute(query.group_by(review_tasks.c.reason))
            return {row.reason: row.number for row in rows}

    def policies(self) -> list[str]:
        """Policies that have open tasks."""
        query = select(review_tasks.c.policy).where(review_tasks.c.outcome.is_(None)).distinct()
        with self._database.reading() as connection:
            return sorted(connection.execute(query).scalars())

    def similar(self, task: Task, limit: int = 6) -> list[Task]:
        """Decided tasks of the same policy: those on the same bytes, then those whose score is nearest."""
        decided = review_tasks.c.outcome.is_not(None) & (review_tasks.c.id != task.id)
        recent = _tasks().where(decided & (review_tasks.c.policy == task.policy))
        recent = recent.order_by(review_tasks.c.decided_at.desc()).limit(_RECENT)
        same = _tasks().where(decided & (verdicts.c.sha256 == task.sha256)).limit(limit)
        with self._database.reading() as connection:
            found = [Task(**row) for row in connection.execute(same).mappings()]
            near = [Task(**row) for row in connection.execute(recent).mappings()]
        near.sort(key=lambda other: abs(other.rank - task.rank))
        return list({one.id: one for one in found + near}.values())[:limit]

    def decide(
        self, user: User, numbers: Collection[int], decision: str, comment: str | None = None
    ) -> list[Task]:
        """Decide tasks that the user holds, all or none: "approve", "reject" or "escalate".

        Raises:
            LeaseLostError: One of them is not the user's any more; nothing was decided.
            ValueError: It is no decision.
        """
        if decision not in OUTCOMES and decision != "escalate":
            raise ValueError(f"decision {decision!r}: give {', '.join(OUTCOMES)} or escalate")
        now, batch = self._database.now(), uuid.uuid4().hex
        mine = (
            review_tasks.c.id.in_(numbers)
            & review_tasks.c.outcome.is_(None)
            & (review_tasks.c.holder == user.id)
            & (review_tasks.c.lease_expires_at >= now)
        )
        values: dict[str, Any] = {"holder": None, "lease_expires_at": None}
        if decision == "escalate":
            values |= {"reason": "escalated"}
        else:
            values |= {"outcome": OUTCOMES[decision], "decided_at": now}
        with self._database.writing() as connection:
            before = (
                connection.execute(_tasks().where(mine).with_for_update(of=review_tasks)).mappings().all()
            )
            tasks = [Task(**row) for row in before]
            lost = sorted(set(numbers) - {task.id for task in tasks})
            if lost:
                raise LeaseLostError(
                    f"task {lost[0]} is not yours any more: its time ran out, or it was decided"
                )
            connection.execute(update(review_tasks).where(mine).values(values))
            for task in sorted(tasks, key=lambda one: one.id):
                row = {"verdict_id": task.verdict_id, "task_id": task.id, "user_id": user.id, "batch": batch}
                row |= {"actor": user.name, "decision": decision, "reason_before": task.reason}
                connection.execute(insert(decisions).values(**row, comment=comment, created_at=now))
                told: dict[str, Any] = {"policy": task.policy, "comment": comment}
                if decision in OUTCOMES:  # before it, nobody is to know which images were sampled
                    told |= {"status": task.status, "score": task.score}
                audit.append(connection, now, user.name, decision, f"verdict {task.verdict_id}", told)
        return [replace(task, **values) for task in tasks]

    def undo(self, user: User) -> list[Task]:
        """Take back what the user decided last, a batch as a whole; its tasks are open again, and free.

        Returns:
            The tasks; none if there is nothing to undo, or somebody has decided one of them since.
        """
        now = self._database.now()
        own = (decisions.c.user_id == user.id) & decisions.c.undone_at.is_(None)
        newest = select(decisions.c.batch).where(own).order_by(decisions.c.id.desc()).limit(1)
        with self._database.writing() as connection:
            batch = connection.execute(newest).scalar_one_or_none()
            made = connection.execute(select(decisions).where(own & (decisions.c.batch == batch))).all()
            since = select(func.count()).where(
                decisions.c.task_id.in_([one.task_id for one in made])
                & decisions.c.undone_at.is_(None)
                & (decisions.c.id > max((one.id for one in made), default=0))
            )
            if not made or connection.execute(since).scalar_one():
                return []
            for one in made:
                connection.execute(update(decisions).where(decisions.c.id == one.id).values(undone_at=now))
                values = {"outcome": None, "decided_at": None, "reason": one.reason_before}
                values |= {"holder": None, "lease_expires_at": None}
                connection.execute(
                    update(review_tasks).where(review_tasks.c.id == one.task_id).values(values)
                )
                told = {"undone": one.decision}
                audit.append(connection, now, user.name, "undo", f"verdict {one.verdict_id}", told)
            query = _tasks().where(review_tasks.c.id.in_([one.task_id for one in made]))
            return [Task(**row) for row in connection.execute(query).mappings()]
