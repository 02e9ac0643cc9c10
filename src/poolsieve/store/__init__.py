"""What the service and the review page keep: SQLite by default, PostgreSQL by URL, one schema.

`Store(url)` has one part for each noun: `keys`, `jobs`, `verdicts`, `images`, `tasks`, `users`, `audit`,
`deliveries` and `settings`. Writes that belong together are one transaction with their audit entry.
"""

try:
    import alembic  # noqa: F401
    import sqlalchemy  # noqa: F401
except ImportError:
    raise ImportError(
        "the store needs SQLAlchemy and Alembic: pip install 'poolsieve[serve]' (with PostgreSQL "
        "'poolsieve[postgres]')"
    ) from None

from poolsieve.store.audit import AuditEntry
from poolsieve.store.database import DEFAULT_URL, database_url
from poolsieve.store.jobs import Job, JobConflictError, JobItem
from poolsieve.store.keys import Key
from poolsieve.store.migrating import migrate, revision
from poolsieve.store.review_tasks import LeaseLostError, Task, TaskFilter
from poolsieve.store.store import Store
from poolsieve.store.stored_verdicts import ChunkRecord, StoredVerdict, VerdictRecord, grounds_of
from poolsieve.store.users import ROLES, Session, User

__all__ = [
    "DEFAULT_URL",
    "ROLES",
    "AuditEntry",
    "ChunkRecord",
    "Job",
    "JobConflictError",
    "JobItem",
    "Key",
    "LeaseLostError",
    "Session",
    "Store",
    "StoredVerdict",
    "Task",
    "TaskFilter",
    "User",
    "VerdictRecord",
    "database_url",
    "grounds_of",
    "migrate",
    "revision",
]
