"""The store: one database with a part for each noun."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np

from poolsieve.store.audit import Audit
from poolsieve.store.database import DEFAULT_URL, Database
from poolsieve.store.deliveries import Deliveries
from poolsieve.store.images import Images
from poolsieve.store.jobs import Jobs
from poolsieve.store.keys import Keys
from poolsieve.store.migrating import migrate, newest_revision, revision
from poolsieve.store.organisation_settings import Settings
from poolsieve.store.review_tasks import ReviewTasks
from poolsieve.store.stored_verdicts import Verdicts
from poolsieve.store.users import Users


class Store:
    """What the service and the review page keep. Threads may share it.

    An empty database gets its tables; one of an older version must be migrated first.

    Args:
        url: `sqlite:///FILE`, `postgresql://USER:PASSWORD@HOST/DATABASE`, or the path of an SQLite file.
        now: The clock, in seconds since 1970.
        rng: Draws which clear images people look at.

    Raises:
        ValueError: The database is of another version, or holds something else.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = DEFAULT_URL,
        *,
        now: Callable[[], float] = time.time,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.database = Database(url, now)
        try:
            with self.database.reading() as connection:
                found = revision(connection)
            if found is None:
                migrate(self.database)
            elif found != newest_revision():
                raise ValueError(
                    f"the database has revision {found}, and this version needs {newest_revision()}; stop "
                    f"what uses it, then: poolsieve store migrate {self.database.url.render_as_string()}"
                )
        except BaseException:
            self.database.close()
            raise
        self.keys = Keys(self.database)
        self.jobs = Jobs(self.database)
        self.verdicts = Verdicts(self.database, rng or np.random.default_rng())
        self.images = Images(self.database)
        self.tasks = ReviewTasks(self.database)
        self.users = Users(self.database)
        self.audit = Audit(self.database)
        self.deliveries = Deliveries(self.database)
        self.settings = Settings(self.database)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
