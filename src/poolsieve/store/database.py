"""One database behind the store: how it is named, opened, read and written."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

DEFAULT_URL = "sqlite:///poolsieve-data/poolsieve.sqlite"
_BUSY_SECONDS = 60.0
_SWITCH_SECONDS = 0.01
_WRITES = "poolsieve_writes"


def database_url(text: str | os.PathLike[str]) -> URL:
    """A database by its URL, or an SQLite file by its path.

    Raises:
        ValueError: It names neither an SQLite file nor a PostgreSQL server.
        ImportError: PostgreSQL's driver is missing.
    """
    named = os.fspath(text)
    try:
        url = make_url(named if "://" in named else f"sqlite:///{named}")
    except ArgumentError:
        raise ValueError(f"{named!r} is no URL of a database; {_NAMING}") from None
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise ValueError(f"{named!r}: the store needs a file, as threads share it; {_NAMING}")
        return url
    if url.get_backend_name() in ("postgresql", "postgres"):
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise ImportError("PostgreSQL needs psycopg: pip install 'poolsieve[postgres]'") from None
        return url.set(drivername="postgresql+psycopg")
    raise ValueError(f"{named!r}: {url.get_backend_name()} is not supported; {_NAMING}")


_NAMING = "give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


class Database:
    """Connections to read and to write with, and the time.

    Attributes:
        url: Where it is.
        now: The clock, in seconds since 1970.
    """

    def __init__(self, url: str | os.PathLike[str], now: Callable[[], float] = time.time) -> None:
        self.url, self.now = database_url(url), now
        if self.is_sqlite:
            Path(str(self.url.database)).parent.mkdir(parents=True, exist_ok=True)
            options: dict[str, Any] = {"connect_args": {"timeout": _BUSY_SECONDS}}
        else:
            options = {"pool_pre_ping": True}
        self._engine: Engine = create_engine(self.url, pool_size=8, max_overflow=32, **options)
        if self.is_sqlite:
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        self._writer = self._engine.execution_options(**{_WRITES: True})

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One state of the database, to read from."""
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it happens or nothing. SQLite's begins with the only lock for writing."""
        with self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # so that transactions begin where we say, and hold what we say
    connection.execute("PRAGMA foreign_keys=ON")
    _write_ahead(connection)


def _write_ahead(connection: Any) -> None:
    """Switch to WAL. While another one writes or closes, SQLite refuses at once, without its time-out."""
    tries = int(_BUSY_SECONDS / _SWITCH_SECONDS)
    for last in (*(False,) * tries, True):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if last or error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        time.sleep(_SWITCH_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
