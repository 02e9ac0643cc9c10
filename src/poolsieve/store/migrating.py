"""Bringing a database to the schema of this version, by the migrations beside this file."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from poolsieve.store.database import Database

_MIGRATION_LOCK = 7_665_101
"""Number of PostgreSQL's advisory lock that whoever migrates holds."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "poolsieve.store:migrations")
    return config


def newest_revision() -> str:
    """The revision that this version works with."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def revision(connection: Connection) -> str | None:
    """The revision of a database; None if it is empty.

    Raises:
        ValueError: It holds tables of something else.
    """
    found = MigrationContext.configure(connection).get_current_revision()
    tables = set(inspect(connection).get_table_names()) - {"alembic_version"}
    if found is None and tables:
        raise ValueError(
            f"the database holds other tables ({', '.join(sorted(tables)[:3])}); take an empty one"
        )
    return found


def migrate(database: Database) -> str:
    """Bring a database to this version's schema, whoever else tries it too; returns the revision.

    Raises:
        ValueError: The database is of a newer version, or of something else.
    """
    with database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATION_LOCK})
        known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
        found = revision(connection)
        if found is not None and found not in known:
            raise ValueError(f"the database has revision {found} of a newer poolsieve; update poolsieve")
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return newest_revision()
