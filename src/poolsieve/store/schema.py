"""The tables. Times are seconds since 1970; text and JSON hold whatever strangers send, on both databases."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

from poolsieve.shown_text import encodable


class Words(TypeDecorator[str]):
    r"""Text from anywhere: undecodable bytes become `\xff`, and NUL, which PostgreSQL refuses, `\x00`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        """What is stored for a text."""
        return None if value is None else storable(value)


class Json(TypeDecorator[Any]):
    """Plain values as one canonical line of ASCII, the same bytes on every database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> str:
        """What is stored for a value; also None is one."""
        return canonical(value)

    def process_result_value(self, value: str | None, dialect: Any) -> Any:
        """The value that was stored."""
        return None if value is None else json.loads(value)


def storable(text: str) -> str:
    r"""Text as the database holds it."""
    return encodable(text).replace("\0", "\\x00")


def canonical(value: Any) -> str:
    """One text for one value: what hashes are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

settings = Table(
    "settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Json, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("time", Double, nullable=False),
    Column("actor", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("details", Json, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Index(None, "subject"),
)
audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("entries", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("name", Words, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("quota", Integer),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("key_id", ForeignKey("keys.id")),
    Column("idempotency_key", Words),
    Column("body_hash", String(64), nullable=False),
    Column("policies", Json, nullable=False),
    Column("source", Json, nullable=False),
    Column("state", String(16), nullable=False),
    Column("error", Words),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("flagged", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("holder", Words),
    Column("lease_expires_at", Double),
    UniqueConstraint("key_id", "idempotency_key"),
    Index(None, "state", "created_at"),
)
job_items = Table(
    "job_items",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Words, nullable=False),
    Column("source", Json, nullable=False),
    Column("remaining", Integer, nullable=False),  # policies that have not decided it yet
)

chunks = Table(
    "chunks",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("policy", Words, nullable=False),
    Column("bundle", Words, nullable=False),
    Column("scheme", Words, nullable=False),
    Column("seed", Words, nullable=False),  # as text: seeds may have more than 64 bits
    Column("cost", Double),
    Column("seconds", Double),
    Column("dispatched_by", Words),
    Column("capacity", Integer),
    Column("images", Integer, nullable=False),
    Column("flagged", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Index(None, "created_at"),
)

images = Table(
    "images",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("thumbnail", LargeBinary),
    Column("original", LargeBinary),
    Column("expires_at", Double),
    Index(None, "expires_at"),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("policy", Words, nullable=False),
    Column("status", String(16), nullable=False),
    Column("score", Double),
    Column("decided_by", Words),
    Column("reason", Words),
    Column("grounds", Json, nullable=False),
    Column("name", Words, nullable=False),
    Column("sha256", ForeignKey("images.sha256")),
    Column("chunk_id", ForeignKey("chunks.id"), nullable=False),
    Column("key_id", ForeignKey("keys.id")),
    Column("job_id", ForeignKey("jobs.id")),
    Column("position", Integer),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("job_id", "position", "policy"),
    Index(None, "created_at"),
    Index(None, "sha256"),
    Index(None, "chunk_id"),
)

users = Table(
    "users",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Words, nullable=False, unique=True),
    Column("password", Words, nullable=False),
    Column("role", String(16), nullable=False),
    Column("wellness", Json, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("locked_until", Double),
    Column("disabled_at", Double),
    Column("created_at", Double, nullable=False),
)
sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("expires_at", Double, nullable=False),
)
invitations = Table(
    "invitations",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("expires_at", Double, nullable=False),
)

review_tasks = Table(
    "review_tasks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("verdict_id", ForeignKey("verdicts.id"), nullable=False, unique=True),
    Column("policy", Words, nullable=False),
    Column("status", String(16), nullable=False),  # of the verdict: flagged, or clear if it was sampled
    Column("reason", String(16), nullable=False),
    Column("weight", Double, nullable=False),  # images that it stands for
    Column("score", Double),
    Column(
        "rank", Double, nullable=False
    ),  # place by score, in which a sampled image hides among flagged ones
    Column("key_id", ForeignKey("keys.id")),
    Column("job_id", ForeignKey("jobs.id")),
    Column("created_at", Double, nullable=False),
    Column("holder", ForeignKey("users.id")),
    Column("lease_expires_at", Double),
    Column("outcome", String(16)),  # approved or rejected; open if null
    Column("decided_at", Double),
    Index(None, "outcome", "rank"),
    Index(None, "outcome", "created_at"),
    Index(None, "decided_at"),
    Index(None, "holder"),
)
decisions = Table(
    "decisions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("verdict_id", ForeignKey("verdicts.id"), nullable=False),
    Column("task_id", ForeignKey("review_tasks.id")),
    Column("user_id", ForeignKey("users.id")),
    Column("actor", Words, nullable=False),
    Column("decision", String(16), nullable=False),  # approve, reject, escalate
    Column("reason_before", String(16)),
    Column("batch", String(32)),  # those made together are undone together
    Column("comment", Words),
    Column("created_at", Double, nullable=False),
    Column("undone_at", Double),
    Index(None, "verdict_id"),
    Index(None, "user_id", "created_at"),
    Index(None, "created_at"),
)
comments = Table(
    "comments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("verdict_id", ForeignKey("verdicts.id"), nullable=False),
    Column("actor", Words, nullable=False),
    Column("text", Words, nullable=False),
    Column("created_at", Double, nullable=False),
    Index(None, "verdict_id"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("event", Words, nullable=False),
    Column("url", Words, nullable=False),
    Column("body", Json, nullable=False),
    Column("state", String(16), nullable=False),  # waiting, delivered, failed
    Column("attempts", Integer, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("error", Words),
    Column("created_at", Double, nullable=False),
    Index(None, "state", "next_at"),
)
