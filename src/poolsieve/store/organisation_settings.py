"""Settings of the organisation, by name, each with its default; every change is in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import settings

DEFAULTS: dict[str, Any] = {
    "blur": True,
    "grey": True,
    "blind": True,
    "sampling_rate": 0.01,
    "thumbnail_days": 30,
    "keep_originals": False,
    "lease_seconds": 600,
    "thresholds": {},
    "plans": {},
    "promises": {},
}
"""What holds unless somebody changed it.

- `blur`, `grey`: How pictures are shown first.
- `blind`: People of every role see the program's opinion only after a decision: it tells sampled images.
- `sampling_rate`: Share of clear images that people look at.
- `thumbnail_days`: How long pictures are kept.
- `keep_originals`: Whether the bytes of flagged images are kept beside their thumbnails.
- `lease_seconds`: How long a task is one reviewer's.
- `thresholds`: By policy, the score from which on an image is flagged, as a person applied it on the review
  page; a policy that is not named has its plan's.
- `plans`: By policy, the `plan` that a person applied there and the hash of the `bundle` that it is for; a
  policy that is not named follows what the service was started with.
- `promises`: By policy, the `threshold` of the plan in force and `plan`, a text, with the `sensitivity` and
  the `specificity` that it promises, its expected `cost` and the `prevalence` that it is for; a scheme that
  was given promises none of these.
"""


class Settings:
    """Values by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> Any:
        """One value, or its default."""
        return self.all()[_known(name)]

    def all(self) -> dict[str, Any]:
        """All values by name."""
        with self._database.reading() as connection:
            return read(connection)

    def set(self, actor: str, values: Mapping[str, Any]) -> None:
        """Change values; only what differs is written and told in the audit.

        Raises:
            ValueError: There is no setting of that name.
        """
        with self._database.writing() as connection:
            before = read(connection)
            for name, value in values.items():
                if before[_known(name)] != value:
                    connection.execute(delete(settings).where(settings.c.name == name))
                    connection.execute(insert(settings).values(name=name, value=value))
                    told = {"from": before[name], "to": value}
                    audit.append(connection, self._database.now(), actor, "set", f"setting {name}", told)


def read(connection: Connection) -> dict[str, Any]:
    """All values by name, as the transaction sees them."""
    return DEFAULTS | {row.name: row.value for row in connection.execute(select(settings))}


def _known(name: str) -> str:
    if name not in DEFAULTS:
        raise ValueError(f"there is no setting {name!r}; there are {', '.join(DEFAULTS)}")
    return name
