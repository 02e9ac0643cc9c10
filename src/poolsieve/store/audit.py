"""The audit log: who did what, when and on what grounds; append-only, every entry chained to all before it.

An entry's hash covers its content and the hash of the entry before. The head (number and hash of the newest)
is stored beside the log, so that entries removed from its end are missed too; whoever keeps a copy of it
elsewhere can tell if somebody rewrote both. Triggers of the database refuse to change or remove entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from poolsieve.store.database import Database
from poolsieve.store.schema import audit, audit_head, canonical, storable

START = "0" * 64
"""The hash before the first entry."""
_HEAD = 1


@dataclass(frozen=True)
class AuditEntry:
    """One entry.

    Attributes:
        number: From 1 on, without gaps.
        time: Seconds since 1970.
        actor: Who: a user, a key, or "poolsieve".
        action: What was done, such as "reject".
        subject: To what, such as "verdict 5f…".
        details: Grounds and values, plain.
        previous: Hash of the entry before.
        hash: SHA-256 over all of the above.
    """

    number: int
    time: float
    actor: str
    action: str
    subject: str
    details: Any
    previous: str
    hash: str

    def computed_hash(self) -> str:
        """The hash that the entry must have."""
        values = asdict(self)
        del values["hash"]
        return hashlib.sha256(canonical(values).encode()).hexdigest()


@dataclass(frozen=True)
class AuditState:
    """What verifying found.

    Attributes:
        count: Entries in the log.
        head: Hash of the newest; keep a copy elsewhere.
        problems: What is wrong, in words; none if the chain is whole.
    """

    count: int
    head: str
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing was changed or removed."""
        return not self.problems


def append(
    connection: Connection, time: float, actor: str, action: str, subject: str, details: Any = None
) -> None:
    """Add an entry to the transaction that does what it tells of; others who add one wait for its end."""
    # Both databases hold one writer at this row: SQLite has a single one anyway.
    head = connection.execute(select(audit_head).where(audit_head.c.id == _HEAD).with_for_update()).one()
    # Hash what the table will hold: text is stored without undecodable bytes.
    actor, action, subject = map(storable, (actor, action, subject))
    draft = AuditEntry(head.entries + 1, time, actor, action, subject, details, head.hash, "")
    values = {**asdict(draft), "hash": draft.computed_hash()}
    connection.execute(insert(audit).values(values))
    connection.execute(
        update(audit_head)
        .where(audit_head.c.id == _HEAD)
        .values(entries=values["number"], hash=values["hash"])
    )


class Audit:
    """Reading, searching and verifying the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, actor: str, action: str, subject: str, details: Any = None) -> None:
        """Add an entry that stands alone."""
        with self._database.writing() as connection:
            append(connection, self._database.now(), actor, action, subject, details)

    def newest(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
    ) -> list[AuditEntry]:
        """Entries, newest first.

        Args:
            limit: At most so many.
            before: Only those with a smaller number.
            actor: Only theirs.
            action: Only such.
            subject: Only of this.
        """
        query = select(audit).order_by(audit.c.number.desc()).limit(limit)
        wanted = {audit.c.actor: actor, audit.c.action: action, audit.c.subject: subject}
        for column, value in wanted.items():
            if value is not None:
                query = query.where(column == value)
        if before is not None:
            query = query.where(audit.c.number < before)
        with self._database.reading() as connection:
            return [AuditEntry(**row) for row in connection.execute(query).mappings()]

    def entries(self) -> Iterator[AuditEntry]:
        """All entries, oldest first, one at a time."""
        with self._database.reading() as connection:
            yield from _entries(connection)

    def head(self) -> tuple[int, str]:
        """Number of entries and hash of the newest, without looking at the rest."""
        with self._database.reading() as connection:
            row = connection.execute(select(audit_head.c.entries, audit_head.c.hash)).one()
        return row.entries, row.hash

    def verify(self, *, head: tuple[int, str] | None = None) -> AuditState:
        """Check the whole chain.

        Args:
            head: A head as it was kept elsewhere; that entry must still be there as it was.
        """
        problems = []
        count, previous = 0, START
        with self._database.reading() as connection:  # one state of both tables
            heads = connection.execute(select(audit_head.c.entries, audit_head.c.hash)).all()
            for entry in _entries(connection):
                count += 1
                if entry.number != count:
                    problems.append(f"entry {count} is missing: entry {entry.number} follows")
                    count = entry.number
                if entry.previous != previous:
                    problems.append(f"entry {entry.number} does not follow from the one before it")
                if entry.hash != entry.computed_hash():
                    problems.append(f"entry {entry.number} was changed")
                if head is not None and entry.number == head[0] and entry.hash != head[1]:
                    problems.append(f"entry {entry.number} is not the one that the kept head tells of")
                previous = entry.hash
        if len(heads) != 1:
            problems.append("the stored head is missing")
        elif (heads[0].entries, heads[0].hash) != (count, previous):
            told = f"the head tells of {heads[0].entries} entries"
            problems.append(f"{told}, and the log ends with entry {count}")
        if head is not None and count < head[0]:
            problems.append(f"the kept head tells of {head[0]} entries, and the log ends with entry {count}")
        return AuditState(count, previous, tuple(problems))


def _entries(connection: Connection) -> Iterator[AuditEntry]:
    rows = connection.execution_options(yield_per=1000).execute(select(audit).order_by(audit.c.number))
    return (AuditEntry(**row) for row in rows.mappings())
