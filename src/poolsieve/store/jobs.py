"""Bulk jobs: made once for an idempotency key, taken by one process at a time, resumed after a kill.

An item is done for a policy when its verdict is in the store; verdicts, counts and the job's end are one
transaction (`Verdicts.record`), so that no image is lost or counted twice whenever the process dies.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import job_items, jobs, verdicts

ENDED = ("done", "cancelled", "failed")


class JobConflictError(ValueError):
    """An idempotency key that was used for another request."""


@dataclass(frozen=True)
class Job:
    """A job and how far it is.

    Attributes:
        id: Its name.
        key_id: The API key that made it.
        policies: What its images are judged by.
        source: Where its images are, as the service wrote it.
        state: "waiting", "running", "done", "cancelled" or "failed".
        error: Why it failed.
        total: Its images.
        done: Images that all policies have decided.
        flagged: Verdicts that are flags.
        errors: Verdicts that are errors.
        created_at: Seconds since 1970, like all times.
        finished_at: When it ended.
    """

    id: str
    key_id: str | None
    policies: tuple[str, ...]
    source: Any
    state: str
    error: str | None
    total: int
    done: int
    flagged: int
    errors: int
    created_at: float
    finished_at: float | None


@dataclass(frozen=True)
class JobItem:
    """One image of a job.

    Attributes:
        position: Its number in the job.
        name: What the manifest calls it.
        source: Where it is, as the service wrote it.
        missing: Policies that have not decided it yet.
    """

    position: int
    name: str
    source: Any
    missing: tuple[str, ...]


_COLUMNS = [jobs.c[name] for name in Job.__dataclass_fields__]


class Jobs:
    """Making, taking, following and ending jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        *,
        key_id: str | None,
        body_hash: str,
        policies: Sequence[str],
        items: Iterable[tuple[str, Any]],
        source: Any = None,
        idempotency_key: str | None = None,
    ) -> tuple[Job, bool]:
        """A job, and whether it is new: the same idempotency key with the same body gives the job it made.

        Args:
            key_id: Who asks.
            body_hash: Hash of all that the request says.
            policies: What to judge by; at least one.
            items: Names of the images, and where each is.
            source: What else the service must know to read them.
            idempotency_key: The caller's name for this request.

        Raises:
            JobConflictError: The idempotency key was used with another body.
        """
        if found := self._earlier(key_id, idempotency_key, body_hash):
            return found, False
        identity, now = uuid.uuid4().hex, self._database.now()
        rows = [
            {
                "job_id": identity,
                "position": number,
                "name": name,
                "source": place,
                "remaining": len(policies),
            }
            for number, (name, place) in enumerate(items)
        ]
        state = "waiting" if rows else "done"
        counts = {"total": len(rows), "done": 0, "flagged": 0, "errors": 0}
        values = {"id": identity, "key_id": key_id, "idempotency_key": idempotency_key, "source": source}
        values |= {"body_hash": body_hash, "policies": list(policies), "state": state, "created_at": now}
        try:
            with self._database.writing() as connection:
                finished = None if rows else now
                connection.execute(insert(jobs).values(**values, **counts, finished_at=finished))
                if rows:
                    connection.execute(insert(job_items), rows)
                told = {"policies": list(policies), "images": len(rows)}
                audit.append(connection, now, _actor(key_id), "create", f"job {identity}", told)
        except IntegrityError:  # the same key came at the same time
            found = self._earlier(key_id, idempotency_key, body_hash)
            if found is None:
                raise
            return found, False
        return self._get(identity), True

    def _earlier(self, key_id: str | None, idempotency_key: str | None, body_hash: str) -> Job | None:
        if idempotency_key is None:
            return None
        wanted = (jobs.c.key_id == key_id) & (jobs.c.idempotency_key == idempotency_key)
        with self._database.reading() as connection:
            row = (
                connection.execute(select(*_COLUMNS, jobs.c.body_hash).where(wanted)).mappings().one_or_none()
            )
        if row is None:
            return None
        if row["body_hash"] != body_hash:
            raise JobConflictError(
                f"idempotency key {idempotency_key!r} was used for another request (job {row['id']}); take "
                "a new one"
            )
        return _job(row)

    def get(self, identity: str, *, key_id: str | None = None) -> Job | None:
        """A job by its name; only if it is that key's, if one is named."""
        wanted = jobs.c.id == identity
        if key_id is not None:
            wanted &= jobs.c.key_id == key_id
        with self._database.reading() as connection:
            row = connection.execute(select(*_COLUMNS).where(wanted)).mappings().one_or_none()
        return None if row is None else _job(row)

    def newest(self, limit: int = 50) -> list[Job]:
        """Jobs, newest first."""
        query = select(*_COLUMNS).order_by(jobs.c.created_at.desc(), jobs.c.id).limit(limit)
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(query).mappings()]

    def claim(self, holder: str, seconds: float) -> Job | None:
        """The oldest job that nobody works on, now the holder's for so long; None if there is none."""
        now = self._database.now()
        free = or_(jobs.c.lease_expires_at.is_(None), jobs.c.lease_expires_at < now, jobs.c.holder == holder)
        oldest = (
            select(jobs.c.id)
            .where(jobs.c.state.in_(("waiting", "running")) & free)
            .order_by(jobs.c.created_at, jobs.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        with self._database.writing() as connection:
            identity = connection.execute(oldest).scalar_one_or_none()
            if identity is None:
                return None
            taken = update(jobs).where(jobs.c.id == identity).returning(*_COLUMNS)
            values = {"state": "running", "holder": holder, "lease_expires_at": now + seconds}
            return _job(connection.execute(taken.values(values)).mappings().one())

    def renew(self, identity: str, holder: str, seconds: float) -> bool:
        """Hold a job longer; False if it has ended or another holds it."""
        wanted = (jobs.c.id == identity) & (jobs.c.holder == holder) & (jobs.c.state == "running")
        until = self._database.now() + seconds
        with self._database.writing() as connection:
            return connection.execute(update(jobs).where(wanted).values(lease_expires_at=until)).rowcount == 1

    def pending(self, identity: str, *, after: int = -1, limit: int = 1000) -> list[JobItem]:
        """Items that some policy has not decided, in order."""
        job = self._get(identity)
        wanted = (
            (job_items.c.job_id == identity) & (job_items.c.remaining > 0) & (job_items.c.position > after)
        )
        query = select(job_items).where(wanted).order_by(job_items.c.position).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            begun = [row.position for row in rows if row.remaining < len(job.policies)]
            there = (verdicts.c.job_id == identity) & verdicts.c.position.in_(begun)
            found = connection.execute(select(verdicts.c.position, verdicts.c.policy).where(there))
            decided = {(row.position, row.policy) for row in found}
        return [
            JobItem(
                row.position,
                row.name,
                row.source,
                tuple(policy for policy in job.policies if (row.position, policy) not in decided),
            )
            for row in rows
        ]

    def cancel(self, actor: str, identity: str) -> bool:
        """End a job before it is done; False if it had ended."""
        return self._end(actor, identity, "cancelled", None)

    def fail(self, identity: str, error: str) -> bool:
        """End a job that cannot go on; False if it had ended."""
        return self._end("poolsieve", identity, "failed", error)

    def _end(self, actor: str, identity: str, state: str, error: str | None) -> bool:
        now = self._database.now()
        wanted = (jobs.c.id == identity) & jobs.c.state.not_in(ENDED)
        with self._database.writing() as connection:
            values: Mapping[str, Any] = {"state": state, "error": error, "finished_at": now}
            ended = connection.execute(update(jobs).where(wanted).values(values)).rowcount == 1
            if ended:
                audit.append(connection, now, actor, state, f"job {identity}", {"error": error})
        return ended

    def _get(self, identity: str) -> Job:
        job = self.get(identity)
        if job is None:
            raise ValueError(f"there is no job {identity}")
        return job


def _job(row: Any) -> Job:
    values = {name: row[name] for name in Job.__dataclass_fields__}
    return Job(**{**values, "policies": tuple(values["policies"])})


def _actor(key_id: str | None) -> str:
    return "poolsieve" if key_id is None else f"key {key_id}"
