"""Webhook deliveries: kept until they arrived or were tried often enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from poolsieve.store.database import Database
from poolsieve.store.schema import deliveries


@dataclass(frozen=True)
class NewDelivery:
    """What to tell whom.

    Attributes:
        event: Such as "verdict.flagged" or "job.finished".
        url: Where to.
        body: Plain values.
    """

    event: str
    url: str
    body: Any


@dataclass(frozen=True)
class Delivery(NewDelivery):
    """A delivery that is due.

    Attributes:
        id: Its number.
        attempts: How often it was tried, this time included.
        created_at: Seconds since 1970.
    """

    id: int
    attempts: int
    created_at: float


_COLUMNS = [deliveries.c[name] for name in Delivery.__dataclass_fields__]


def enqueue(connection: Connection, wanted: Iterable[NewDelivery], now: float) -> None:
    """Add deliveries to a transaction."""
    fixed = {"state": "waiting", "attempts": 0, "next_at": now, "created_at": now}
    rows = [{"event": one.event, "url": one.url, "body": one.body, **fixed} for one in wanted]
    if rows:
        connection.execute(insert(deliveries), rows)


class Deliveries:
    """The queue of deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, wanted: Iterable[NewDelivery]) -> None:
        """Queue deliveries that belong to nothing else."""
        with self._database.writing() as connection:
            enqueue(connection, wanted, self._database.now())

    def claim(self, limit: int, seconds: float) -> list[Delivery]:
        """Deliveries that are due; each is due again after so many seconds if nobody says how it went."""
        now = self._database.now()
        waiting = (deliveries.c.state == "waiting") & (deliveries.c.next_at <= now)
        due = select(deliveries.c.id).where(waiting).order_by(deliveries.c.next_at).limit(limit)
        with self._database.writing() as connection:
            numbers = connection.execute(due.with_for_update(skip_locked=True)).scalars().all()
            taken = update(deliveries).where(deliveries.c.id.in_(numbers)).returning(*_COLUMNS)
            values = {"next_at": now + seconds, "attempts": deliveries.c.attempts + 1}
            rows = connection.execute(taken.values(values)).mappings().all()
        return sorted((Delivery(**row) for row in rows), key=lambda one: one.id)

    def delivered(self, number: int) -> None:
        """It has arrived."""
        self._set(number, state="delivered", error=None)

    def retry(self, number: int, error: str, next_at: float) -> None:
        """It did not arrive; try again then."""
        self._set(number, error=error, next_at=next_at)

    def failed(self, number: int, error: str) -> None:
        """It did not arrive and is given up."""
        self._set(number, state="failed", error=error)

    def counts(self) -> dict[str, int]:
        """Deliveries by state."""
        query = select(deliveries.c.state, func.count().label("number")).group_by(deliveries.c.state)
        with self._database.reading() as connection:
            return {row.state: row.number for row in connection.execute(query)}

    def _set(self, number: int, **values: Any) -> None:
        with self._database.writing() as connection:
            connection.execute(update(deliveries).where(deliveries.c.id == number).values(values))
