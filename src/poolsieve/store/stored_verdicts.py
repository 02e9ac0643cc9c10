"""Verdicts and the chunks that they were decided in, recorded with all that follows from them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, case, func, insert, select, update

from poolsieve.store import audit, deliveries, images, organisation_settings, review_tasks
from poolsieve.store.database import Database
from poolsieve.store.jobs import ENDED
from poolsieve.store.schema import chunks, comments, decisions, job_items, jobs, verdicts

if TYPE_CHECKING:
    import numpy as np

    from poolsieve.moderation.verdicts import Verdict
    from poolsieve.store.deliveries import NewDelivery

_DAY = 86_400.0


@dataclass(frozen=True)
class VerdictRecord:
    """One verdict to be recorded.

    Attributes:
        name: What the sender calls the image.
        sha256: Hash of its bytes; None if there were none to read.
        status: "flagged", "clear", "error" or "not_image".
        score: Higher is worse; None if it was not judged.
        decided_by: The stage that decided it.
        reason: Why it could not be read.
        grounds: Plain values for people, as `grounds_of` makes them; neither seed nor pool-mates.
        thumbnail: Makes the picture for people, a JPEG; called only for what they will look at.
        original: Makes the image's bytes; called only for those, and only if originals are kept.
        key_id: The API key that sent it.
        job_id: The job that it belongs to.
        position: Its number in the job.
        id: Its public name; made here if not given.
        sampled: Whether people look at it although it is clear; drawn here if not given.
    """

    name: str
    sha256: str | None
    status: str
    score: float | None
    decided_by: str | None
    grounds: dict[str, Any]
    reason: str | None = None
    thumbnail: Callable[[], bytes] | None = None
    original: Callable[[], bytes] | None = None
    key_id: str | None = None
    job_id: str | None = None
    position: int | None = None
    id: str | None = None
    sampled: bool | None = None

    @classmethod
    def of(cls, verdict: Verdict, *, threshold: float | None = None) -> VerdictRecord:
        """What a verdict says itself; `threshold` is the score above which images were flagged."""
        return cls(
            name=verdict.path,
            sha256=verdict.sha256,
            status=verdict.status,
            score=verdict.score,
            decided_by=verdict.decided_by,
            grounds=grounds_of(verdict, threshold=threshold),
            reason=verdict.reason,
        )


@dataclass(frozen=True)
class ChunkRecord:
    """One chunk to be recorded, of one policy.

    Attributes:
        policy: Name of the bundle that it was judged by.
        bundle: Hash of the bundle.
        scheme: The scheme with its parameters.
        seed: Seed of the order in which images were dealt into pools.
        verdicts: Of its images.
        cost: Multiply-adds, as a share of testing every image individually.
        seconds: From dispatch to verdicts.
        dispatched_by: Why it was judged then: "full", "deadline", "idle" …
        capacity: Images that it could have held.
    """

    policy: str
    bundle: str
    scheme: str
    seed: int
    verdicts: Sequence[VerdictRecord]
    cost: float | None = None
    seconds: float | None = None
    dispatched_by: str | None = None
    capacity: int | None = None


@dataclass(frozen=True)
class StoredVerdict:
    """A verdict as it is kept; names as in `VerdictRecord`, times in seconds since 1970."""

    id: str
    policy: str
    status: str
    score: float | None
    decided_by: str | None
    reason: str | None
    grounds: dict[str, Any]
    name: str
    sha256: str | None
    chunk_id: str
    key_id: str | None
    job_id: str | None
    position: int | None
    created_at: float


def grounds_of(verdict: Verdict, *, threshold: float | None = None) -> dict[str, Any]:
    """What people and callers are told of a verdict: every stage's opinion, but not who shared a pool."""
    pools = [{"size": len(pool.members), "count": pool.count} for pool in verdict.pools]
    told = {"prior": verdict.prior, "pool_score": verdict.pool_score, "pools": pools, "note": verdict.note}
    return {**told, "threshold": threshold, "scheme": verdict.scheme}


class Verdicts:
    """Recording and finding verdicts.

    Args:
        database: Where they are.
        rng: Draws which clear images people look at.
    """

    def __init__(self, database: Database, rng: np.random.Generator) -> None:
        self._database, self._rng = database, rng

    def record(
        self,
        records: Sequence[ChunkRecord],
        *,
        deliveries_made: Callable[..., Iterable[NewDelivery]] | None = None,
    ) -> list[list[str | None]]:
        """Record chunks in one transaction with their images, review tasks, progress of jobs and deliveries.

        A verdict on a job's image that the same policy has decided before is left out: a chunk that is
        repeated after a kill counts nothing twice.

        Args:
            records: One chunk for each policy, say.
            deliveries_made: Called in the transaction with `(chunk, [(id, verdict), …], finished jobs)` for
                each chunk; what it returns is delivered if and only if the chunk is recorded.

        Returns:
            The public names of each chunk's verdicts; None for those that were left out.
        """
        wanted = self._database_settings()
        prepared = [self._prepare(record, wanted) for record in records]
        now, names = self._database.now(), []
        with self._database.writing() as connection:
            for record, pictures in zip(records, prepared, strict=True):
                fresh = _undecided(connection, record)
                chunk_id = uuid.uuid4().hex
                rows = [
                    _row(verdict, record, chunk_id, now) if new else None
                    for verdict, new in zip(record.verdicts, fresh, strict=True)
                ]
                kept = [row for row in rows if row is not None]
                names.append([None if row is None else row["id"] for row in rows])
                if not kept:
                    continue
                _insert_chunk(connection, record, chunk_id, kept, now)
                for row, (picture, _) in zip(rows, pictures, strict=True):
                    if row is not None and row["sha256"] is not None:
                        images.keep(connection, row["sha256"], _expiring(picture, now, wanted))
                connection.execute(insert(verdicts), kept)
                tasks = [
                    (row, weight)
                    for row, (_, weight) in zip(rows, pictures, strict=True)
                    if row is not None and weight is not None
                ]
                review_tasks.create(connection, tasks, now, self._rng)
                finished = _count(connection, kept, now)
                if deliveries_made is not None:
                    pairs = [
                        (row["id"], verdict)
                        for row, verdict in zip(rows, record.verdicts, strict=True)
                        if row is not None
                    ]
                    deliveries.enqueue(connection, deliveries_made(record, pairs, finished), now)
        return names

    def _database_settings(self) -> dict[str, Any]:
        with self._database.reading() as connection:
            return organisation_settings.read(connection)

    def _prepare(
        self, record: ChunkRecord, wanted: dict[str, Any]
    ) -> list[tuple[dict[str, bytes], float | None]]:
        """For each verdict the pictures to keep and the weight of its review task, None if it gets none."""
        rate = float(wanted["sampling_rate"])
        prepared: list[tuple[dict[str, bytes], float | None]] = []
        for verdict, draw in zip(record.verdicts, self._rng.random(len(record.verdicts)), strict=True):
            drawn = draw < rate if verdict.sampled is None else verdict.sampled
            sampled = verdict.status == "clear" and drawn
            if verdict.status != "flagged" and not sampled:
                prepared.append(({}, None))
                continue
            pictures = {} if verdict.thumbnail is None else {"thumbnail": verdict.thumbnail()}
            if wanted["keep_originals"] and verdict.original is not None:
                pictures["original"] = verdict.original()
            prepared.append((pictures, 1 / rate if sampled else 1.0))
        return prepared

    def get(self, identity: str, *, key_id: str | None = None) -> StoredVerdict | None:
        """A verdict by its public name; only if it is that key's, if one is named."""
        wanted = verdicts.c.id == identity
        if key_id is not None:
            wanted &= verdicts.c.key_id == key_id
        with self._database.reading() as connection:
            row = connection.execute(select(verdicts).where(wanted)).mappings().one_or_none()
        return None if row is None else StoredVerdict(**row)

    def of_job(self, job_id: str, *, after: int = -1, limit: int = 1000) -> list[StoredVerdict]:
        """Verdicts of a job in the order of its images; `limit` images at most, with all their policies."""
        there = (verdicts.c.job_id == job_id) & (verdicts.c.position > after)
        places = (
            select(verdicts.c.position).where(there).distinct().order_by(verdicts.c.position).limit(limit)
        )
        query = (
            select(verdicts)
            .where(there & verdicts.c.position.in_(places))
            .order_by(verdicts.c.position, verdicts.c.policy)
        )
        with self._database.reading() as connection:
            return [StoredVerdict(**row) for row in connection.execute(query).mappings()]

    def of_image(self, sha256: str, limit: int = 20) -> list[StoredVerdict]:
        """Verdicts on the same bytes, newest first."""
        query = select(verdicts).where(verdicts.c.sha256 == sha256)
        query = query.order_by(verdicts.c.created_at.desc()).limit(limit)
        with self._database.reading() as connection:
            return [StoredVerdict(**row) for row in connection.execute(query).mappings()]

    def all(self) -> Iterator[StoredVerdict]:
        """All verdicts, oldest first, one at a time."""
        query = select(verdicts).order_by(verdicts.c.created_at, verdicts.c.id)
        with self._database.reading() as connection:
            rows = connection.execution_options(yield_per=1000).execute(query)
            yield from (StoredVerdict(**row) for row in rows.mappings())

    def decide(self, actor: str, identity: str, decision: str, comment: str | None = None) -> bool:
        """A person's decision from another tool: "approve" or "reject"; it closes the review task, if any.

        Returns:
            False if there is no such verdict.

        Raises:
            ValueError: It is no decision.
        """
        if decision not in review_tasks.OUTCOMES:
            raise ValueError(f"decision {decision!r}: give {' or '.join(review_tasks.OUTCOMES)}")
        now = self._database.now()
        with self._database.writing() as connection:
            row = connection.execute(select(verdicts).where(verdicts.c.id == identity)).one_or_none()
            if row is None:
                return False
            task_id = review_tasks.close(connection, identity, decision, now)
            values = {"verdict_id": identity, "task_id": task_id, "actor": actor, "decision": decision}
            connection.execute(insert(decisions).values(**values, comment=comment, created_at=now))
            told = {"policy": row.policy, "status": row.status, "score": row.score, "comment": comment}
            audit.append(connection, now, actor, decision, f"verdict {identity}", told)
        return True

    def decisions(self, identity: str) -> list[dict[str, Any]]:
        """Decisions on a verdict, oldest first, undone ones too."""
        with self._database.reading() as connection:
            query = select(decisions).where(decisions.c.verdict_id == identity).order_by(decisions.c.id)
            return [dict(row) for row in connection.execute(query).mappings()]

    def comment(self, actor: str, identity: str, text: str) -> None:
        """Say something about a verdict."""
        now = self._database.now()
        with self._database.writing() as connection:
            values = {"verdict_id": identity, "actor": actor, "text": text, "created_at": now}
            connection.execute(insert(comments).values(values))
            audit.append(connection, now, actor, "comment", f"verdict {identity}", {"text": text})

    def comments(self, identity: str) -> list[dict[str, Any]]:
        """Comments on a verdict, oldest first."""
        with self._database.reading() as connection:
            query = select(comments).where(comments.c.verdict_id == identity).order_by(comments.c.id)
            return [dict(row) for row in connection.execute(query).mappings()]


def _undecided(connection: Connection, record: ChunkRecord) -> list[bool]:
    """Whether each verdict is the first of its policy on that image of a job."""
    places: dict[str, list[int]] = {}
    for verdict in record.verdicts:
        if verdict.job_id is not None and verdict.position is not None:
            places.setdefault(verdict.job_id, []).append(verdict.position)
    decided: set[tuple[str, int]] = set()
    for job_id, positions in sorted(places.items()):
        # Whoever else records for this job waits here, so that what is read stays true.
        connection.execute(select(jobs.c.id).where(jobs.c.id == job_id).with_for_update())
        there = (verdicts.c.job_id == job_id) & verdicts.c.position.in_(positions)
        query = select(verdicts.c.position).where(there & (verdicts.c.policy == record.policy))
        decided |= {(job_id, position) for position in connection.execute(query).scalars()}
    return [(verdict.job_id, verdict.position) not in decided for verdict in record.verdicts]


def _row(verdict: VerdictRecord, record: ChunkRecord, chunk_id: str, now: float) -> dict[str, Any]:
    values = {name: getattr(verdict, name) for name in verdict.__dataclass_fields__}
    del values["thumbnail"], values["original"], values["sampled"]
    made = {"id": verdict.id or uuid.uuid4().hex, "policy": record.policy, "chunk_id": chunk_id}
    return {**values, **made, "created_at": now}


def _insert_chunk(
    connection: Connection, record: ChunkRecord, chunk_id: str, rows: Sequence[dict[str, Any]], now: float
) -> None:
    values = {name: getattr(record, name) for name in record.__dataclass_fields__ if name != "verdicts"}
    status = Counter(row["status"] for row in rows)
    counts = {"images": len(rows), "flagged": status["flagged"], "errors": status["error"]}
    made = {"id": chunk_id, "seed": str(record.seed), "created_at": now}
    connection.execute(insert(chunks).values({**values, **counts, **made}))


def _expiring(pictures: dict[str, bytes], now: float, wanted: dict[str, Any]) -> dict[str, Any]:
    return {**pictures, "expires_at": now + _DAY * wanted["thumbnail_days"]} if pictures else {}


def _count(connection: Connection, rows: Sequence[dict[str, Any]], now: float) -> list[str]:
    """Progress of the jobs whose images were decided; names of those that this has finished."""
    finished = []
    by_job: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["job_id"] is not None:
            by_job.setdefault(row["job_id"], []).append(row)
    for job_id, mine in sorted(by_job.items()):
        status = Counter(row["status"] for row in mine)
        here = (job_items.c.job_id == job_id) & job_items.c.position.in_([row["position"] for row in mine])
        less = update(job_items).where(here).values(remaining=job_items.c.remaining - 1)
        left = connection.execute(less.returning(job_items.c.remaining)).scalars().all()
        done = sum(number == 0 for number in left)
        ends = (jobs.c.done + done >= jobs.c.total) & jobs.c.state.not_in(ENDED)
        counted = (
            update(jobs)
            .where(jobs.c.id == job_id)
            .values(
                done=jobs.c.done + done,
                flagged=jobs.c.flagged + status["flagged"],
                errors=jobs.c.errors + status["error"],
                state=case((ends, "done"), else_=jobs.c.state),
                finished_at=case((ends, func.coalesce(jobs.c.finished_at, now)), else_=jobs.c.finished_at),
            )
            .returning(jobs.c.state, jobs.c.finished_at, jobs.c.total, jobs.c.flagged, jobs.c.errors)
        )
        job = connection.execute(counted).one()
        if job.state == "done" and job.finished_at == now:
            finished.append(job_id)
            told = {"images": job.total, "flagged": job.flagged, "errors": job.errors}
            audit.append(connection, now, "poolsieve", "finish", f"job {job_id}", told)
    return finished
