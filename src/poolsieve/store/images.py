"""Pictures of images that people look at, by the hash of their bytes, for as long as is set."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import images


def keep(connection: Connection, sha256: str, values: dict[str, Any]) -> None:
    """Note an image, with its pictures if `values` has any; what was kept before stays."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    added = insert(images).values(sha256=sha256, **values)
    if values:
        connection.execute(added.on_conflict_do_update(index_elements=["sha256"], set_=values))
    else:
        connection.execute(added.on_conflict_do_nothing())


class Images:
    """Thumbnails and, if asked for, originals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def thumbnail(self, sha256: str) -> bytes | None:
        """The JPEG of an image; None if none is kept."""
        return self._column(sha256, images.c.thumbnail)

    def original(self, sha256: str) -> bytes | None:
        """The bytes as they were sent; None if they are not kept."""
        return self._column(sha256, images.c.original)

    def purge(self) -> int:
        """Remove the pictures that have expired; how many that were."""
        now = self._database.now()
        kept = or_(images.c.thumbnail.is_not(None), images.c.original.is_not(None))
        expired = (images.c.expires_at <= now) & kept
        with self._database.writing() as connection:
            nothing = {"thumbnail": None, "original": None, "expires_at": None}
            count = connection.execute(update(images).where(expired).values(nothing)).rowcount
            if count:
                audit.append(connection, now, "poolsieve", "purge", "images", {"images": count})
        return count

    def _column(self, sha256: str, column: Any) -> bytes | None:
        with self._database.reading() as connection:
            found: bytes | None = connection.execute(
                select(column).where(images.c.sha256 == sha256)
            ).scalar_one_or_none()
        return found
