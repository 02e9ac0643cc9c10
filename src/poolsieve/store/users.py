"""People: passwords as argon2 hashes, roles, sessions, lock-out, and one-time links that invite."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from poolsieve.store import audit
from poolsieve.store.database import Database
from poolsieve.store.schema import invitations, sessions, users

ROLES = ("reviewer", "lead", "admin")
LEAST_PASSWORD = 10
_INVITED_SECONDS = 7 * 86_400.0
_SESSION_SECONDS = 12 * 3_600.0
_FAILURES = 5
_LOCKED_SECONDS = 900.0


@dataclass(frozen=True)
class User:
    """A person.

    Attributes:
        id: Their number.
        name: What they sign in with.
        role: "reviewer", "lead" or "admin".
        wellness: What they set for themselves, such as {"blur": True}.
        disabled_at: When their account was closed.
    """

    id: int
    name: str
    role: str
    wellness: dict[str, Any]
    disabled_at: float | None

    def may(self, role: str) -> bool:
        """Whether they have at least the rights of a role."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Session:
    """Somebody who has signed in.

    Attributes:
        user: Who.
        csrf: The token that their forms carry.
    """

    user: User
    csrf: str


class Users:
    """Accounts, signing in, invitations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def invite(self, actor: str, role: str) -> str:
        """The secret of a link by which one person makes an account, once, within a week."""
        if role not in ROLES:
            raise ValueError(f"role {role!r}: there are {', '.join(ROLES)}")
        token, now = secrets.token_urlsafe(32), self._database.now()
        with self._database.writing() as connection:
            values = {"token_hash": _hashed(token), "role": role, "expires_at": now + _INVITED_SECONDS}
            connection.execute(insert(invitations).values(values))
            audit.append(connection, now, actor, "invite", f"role {role}")
        return token

    def invited_as(self, token: str) -> str | None:
        """The role that a link still gives, or None."""
        wanted = (invitations.c.token_hash == _hashed(token)) & (
            invitations.c.expires_at > self._database.now()
        )
        with self._database.reading() as connection:
            role: str | None = connection.execute(
                select(invitations.c.role).where(wanted)
            ).scalar_one_or_none()
        return role

    def join(self, token: str, name: str, password: str) -> User:
        """Make the account that a link invites to; the link is used up.

        Raises:
            ValueError: The link is used up or too old, the name is taken, or the password too short.
        """
        _check_account(name, password)
        now, hashed = self._database.now(), _hasher().hash(password)
        wanted = (invitations.c.token_hash == _hashed(token)) & (invitations.c.expires_at > now)
        with self._database.writing() as connection:
            role = connection.execute(
                delete(invitations).where(wanted).returning(invitations.c.role)
            ).scalar_one_or_none()
            if role is None:
                raise ValueError("this link was used before or is too old; ask for a new one")
            return _add(connection, now, name, hashed, role)

    def add(self, name: str, password: str, role: str) -> User:
        """Make an account."""
        _check_account(name, password)
        hashed = _hasher().hash(password)
        with self._database.writing() as connection:
            return _add(connection, self._database.now(), name, hashed, role)

    def sign_in(self, name: str, password: str) -> tuple[str, Session]:
        """The secret of a new session, and the session.

        Raises:
            ValueError: Name or password is wrong, or there were too many wrong ones; which names exist is not
                told.
        """
        now = self._database.now()
        with self._database.writing() as connection:
            row = connection.execute(
                select(users).where(users.c.name == name).with_for_update()
            ).one_or_none()
            locked = row is not None and row.locked_until is not None and row.locked_until > now
            if row is not None and not locked:  # before the slow part, so that tries at once all count
                failures = row.failures + 1
                until = now + _LOCKED_SECONDS if failures >= _FAILURES else None
                values = {"failures": 0 if until else failures, "locked_until": until}
                connection.execute(update(users).where(users.c.id == row.id).values(values))
                if until:
                    audit.append(connection, now, name, "lock", f"user {name}")
        right = _matches(password, _no_password() if row is None else row.password)
        if row is None or locked or not right or row.disabled_at is not None:
            raise ValueError(
                "name or password is wrong, or there were too many wrong ones: then wait a quarter of an hour"
            )
        with self._database.writing() as connection:
            connection.execute(
                update(users).where(users.c.id == row.id).values(failures=0, locked_until=None)
            )
            return _begin(connection, now, _user(row))

    def open_session(self, user: User) -> str:
        """The secret of a new session of somebody who was let in by other means than a password."""
        with self._database.writing() as connection:
            return _begin(connection, self._database.now(), user)[0]

    def session(self, token: str) -> Session | None:
        """Who has this session; None if it has ended."""
        wanted = (sessions.c.token_hash == _hashed(token)) & (sessions.c.expires_at > self._database.now())
        query = select(users, sessions.c.csrf).join(sessions, sessions.c.user_id == users.c.id).where(wanted)
        with self._database.reading() as connection:
            row = connection.execute(query.where(users.c.disabled_at.is_(None))).one_or_none()
        return None if row is None else Session(_user(row), row.csrf)

    def sign_out(self, token: str) -> None:
        """End a session."""
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.token_hash == _hashed(token)))

    def all(self) -> list[User]:
        """Everybody, by name."""
        with self._database.reading() as connection:
            return [_user(row) for row in connection.execute(select(users).order_by(users.c.name))]

    def get(self, number: int) -> User | None:
        """A person by their number."""
        with self._database.reading() as connection:
            row = connection.execute(select(users).where(users.c.id == number)).one_or_none()
        return None if row is None else _user(row)

    def set_wellness(self, user: User, values: dict[str, Any]) -> None:
        """How one wants pictures to be shown."""
        with self._database.writing() as connection:
            connection.execute(update(users).where(users.c.id == user.id).values(wellness=values))

    def change(
        self, actor: str, number: int, *, role: str | None = None, disabled: bool | None = None
    ) -> None:
        """Give another role, or close or open an account; whoever is changed must sign in again.

        Raises:
            ValueError: No admin would be left, or there is no such role or user.
        """
        if role is not None and role not in ROLES:
            raise ValueError(f"role {role!r}: there are {', '.join(ROLES)}")
        now = self._database.now()
        values: dict[str, Any] = {} if role is None else {"role": role}
        if disabled is not None:
            values["disabled_at"] = now if disabled else None
        if not values:
            return
        with self._database.writing() as connection:
            # Two admins who take each other's role wait for one another here.
            admins = select(users.c.id).where((users.c.role == "admin") & users.c.disabled_at.is_(None))
            left = set(connection.execute(admins.with_for_update()).scalars()) - {number}
            row = connection.execute(select(users).where(users.c.id == number)).one_or_none()
            if row is None:
                raise ValueError(f"there is no user {number}")
            if row.role == "admin" and not left and (role not in (None, "admin") or disabled):
                raise ValueError(f"{row.name} is the last admin; make another one first")
            connection.execute(update(users).where(users.c.id == number).values(values))
            connection.execute(delete(sessions).where(sessions.c.user_id == number))
            told = {"role": role, "disabled": disabled}
            audit.append(connection, now, actor, "change", f"user {row.name}", told)

    def count(self) -> int:
        """How many accounts there are."""
        with self._database.reading() as connection:
            return connection.execute(select(func.count()).select_from(users)).scalar_one()


def _check_account(name: str, password: str) -> None:
    if not 1 <= len(name) <= 64 or not name.isprintable() or name != name.strip():
        raise ValueError(f"name {name[:64]!r}: 1 to 64 letters, no spaces around it")
    if len(password) < LEAST_PASSWORD:
        raise ValueError(f"the password has {len(password)} characters; take at least {LEAST_PASSWORD}")
    if len(password) > 1024:
        raise ValueError("the password has more than 1024 characters; take a shorter one")


def _add(connection: Connection, now: float, name: str, hashed: str, role: str) -> User:
    if role not in ROLES:
        raise ValueError(f"role {role!r}: there are {', '.join(ROLES)}")
    values = {
        "name": name,
        "password": hashed,
        "role": role,
        "wellness": {},
        "failures": 0,
        "created_at": now,
    }
    try:
        row = connection.execute(insert(users).values(values).returning(users)).one()
    except IntegrityError:
        raise ValueError(f"there is a user {name!r} already; take another name") from None
    audit.append(connection, now, name, "join", f"user {name}", {"role": role})
    return _user(row)


def _begin(connection: Connection, now: float, user: User) -> tuple[str, Session]:
    token, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.expires_at < now))
    values = {"token_hash": _hashed(token), "user_id": user.id, "csrf": csrf}
    connection.execute(insert(sessions).values(**values, expires_at=now + _SESSION_SECONDS))
    audit.append(connection, now, user.name, "sign in", f"user {user.name}")
    return token, Session(user, csrf)


def _user(row: Any) -> User:
    return User(row.id, row.name, row.role, row.wellness, row.disabled_at)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _hasher() -> Any:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise ImportError("passwords need argon2: pip install 'poolsieve[serve]'") from None
    return PasswordHasher()


def _matches(password: str, hashed: str) -> bool:
    from argon2.exceptions import VerificationError

    try:
        return bool(_hasher().verify(hashed, password))
    except (VerificationError, UnicodeEncodeError):
        return False


_NO_PASSWORD: list[str] = []


def _no_password() -> str:
    """A hash that takes as long to check as any other."""
    if not _NO_PASSWORD:
        _NO_PASSWORD.append(_hasher().hash(secrets.token_urlsafe(32)))
    return _NO_PASSWORD[0]
