"""API keys: kept as hashes, with scopes, a quota and an end."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import keys

SCOPES = ("moderate", "jobs", "verdicts", "decisions", "metrics")
_PREFIX = "poolsieve"
_NO_HASH = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Key:
    """What is known of a key; the key itself is not.

    Attributes:
        id: Its public part.
        name: What its owner calls it.
        scopes: What it may be used for.
        quota: Images a minute; None: no limit.
        created_at: Seconds since 1970, like all times.
        expires_at: When it ends by itself.
        revoked_at: When it was revoked.
    """

    id: str
    name: str
    scopes: frozenset[str]
    quota: int | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None

    def valid(self, now: float) -> bool:
        """Whether it may be used at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_COLUMNS = [column for column in keys.c if column is not keys.c.hash]


class Keys:
    """Making, checking and revoking keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        actor: str,
        name: str,
        *,
        scopes: Collection[str] = SCOPES,
        quota: int | None = None,
        expires_at: float | None = None,
    ) -> tuple[Key, str]:
        """A new key, and the text of it, which nobody can see again.

        Raises:
            ValueError: A scope or the quota is none.
        """
        if unknown := sorted(set(scopes) - set(SCOPES)):
            raise ValueError(f"no scope {unknown[0]!r}; there are {', '.join(SCOPES)}")
        if quota is not None and quota < 1:
            raise ValueError(f"quota {quota}: at least 1 image a minute, or none for no limit")
        public, secret, now = secrets.token_hex(8), secrets.token_urlsafe(32), self._database.now()
        key = Key(public, name, frozenset(scopes), quota, now, expires_at, None)
        with self._database.writing() as connection:
            values = {**vars(key), "scopes": sorted(key.scopes), "hash": _hashed(secret)}
            connection.execute(insert(keys).values(values))
            told = {"name": name, "scopes": values["scopes"], "quota": quota, "expires_at": expires_at}
            audit.append(connection, now, actor, "create", f"key {public}", told)
        return key, f"{_PREFIX}_{public}_{secret}"

    def find(self, text: str) -> Key | None:
        """The valid key with this text, or None; takes as long for a wrong secret as for the right one."""
        prefix, _, rest = text.partition("_")
        public, _, secret = rest.partition("_")
        with self._database.reading() as connection:
            row = connection.execute(select(keys).where(keys.c.id == public)).mappings().one_or_none()
        same = hmac.compare_digest(_hashed(secret), _NO_HASH if row is None else row["hash"])
        if row is None or not same or prefix != _PREFIX:
            return None
        key = _key(row)
        return key if key.valid(self._database.now()) else None

    def get(self, public: str) -> Key | None:
        """A key by its public part."""
        with self._database.reading() as connection:
            query = select(*_COLUMNS).where(keys.c.id == public)
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _key(row)

    def all(self) -> list[Key]:
        """All keys, newest first."""
        with self._database.reading() as connection:
            query = select(*_COLUMNS).order_by(keys.c.created_at.desc(), keys.c.id)
            return [_key(row) for row in connection.execute(query).mappings()]

    def revoke(self, actor: str, public: str) -> bool:
        """End a key at once; False if there is no such key or it was revoked before."""
        now = self._database.now()
        with self._database.writing() as connection:
            wanted = (keys.c.id == public) & keys.c.revoked_at.is_(None)
            done = connection.execute(update(keys).where(wanted).values(revoked_at=now)).rowcount == 1
            if done:
                audit.append(connection, now, actor, "revoke", f"key {public}")
        return done


def _key(row: object) -> Key:
    values = dict(row)  # type: ignore[call-overload]
    values.pop("hash", None)
    return Key(**{**values, "scopes": frozenset(values["scopes"])})


def _hashed(secret: str) -> str:
    # The secret is random and long: a slow hash, as for passwords, would only make requests slow.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
