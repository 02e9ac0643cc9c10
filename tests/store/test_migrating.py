import sqlite3
import threading

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from poolsieve.store import Store, database_url, migrate
from poolsieve.store.database import Database
from poolsieve.store.schema import metadata


def test_the_migrations_make_the_tables_that_the_code_speaks_of(empty_database):
    with Store(empty_database) as store, store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_many_that_start_at_once_make_the_tables_once(empty_database):
    problems = []

    def start():
        try:
            with Store(empty_database) as store:
                store.audit.add("someone", "start", "service")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with Store(empty_database) as store:
        assert store.audit.verify().whole and store.audit.head()[0] == 6


def test_a_file_that_another_is_writing_to_is_waited_for(tmp_path):
    other = sqlite3.connect(tmp_path / "s.sqlite", check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # SQLite does not wait for this one when it switches to writing ahead
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite3.connect(tmp_path / "s.sqlite").execute("PRAGMA journal_mode=WAL")
    threading.Timer(0.2, lambda: other.execute("ROLLBACK")).start()
    with Store(tmp_path / "s.sqlite") as store:
        assert store.audit.verify().whole


def test_an_older_store_names_the_command_and_a_newer_one_is_refused(store_url):
    database = Database(store_url)
    for revision, words in (("0000", "poolsieve store migrate"), ("9999", "poolsieve store migrate")):
        with database.writing() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :to"), {"to": revision})
        with pytest.raises(ValueError, match=words):
            Store(store_url)
    with pytest.raises(ValueError, match="newer poolsieve"):
        migrate(database)
    database.close()


def test_tables_of_something_else_are_left_alone(empty_database):
    database = Database(empty_database)
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE theirs (id INTEGER)"))
    database.close()
    with pytest.raises(ValueError, match=r"other tables \(theirs\)"):
        Store(empty_database)


@pytest.mark.parametrize("url", ["mysql://u@h/d", "sqlite://", "sqlite:///:memory:", "://"])
def test_what_is_no_database_says_what_is(url):
    with pytest.raises(ValueError, match="give sqlite:///FILE or postgresql://"):
        database_url(url)


def test_sqlite_waits_for_writers_keeps_references_and_writes_ahead(tmp_path):
    with Store(tmp_path / "folder" / "s.sqlite") as store, store.database.reading() as connection:
        said = {name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in (
            "journal_mode", "foreign_keys", "busy_timeout")}  # fmt: skip
    assert said == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 60_000}
