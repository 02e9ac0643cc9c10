"""A finished `moderate` run to review: its table in a store beside it, decisions in a table of their own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from sqlalchemy import select

from poolsieve.files import atomic_file
from poolsieve.images.sources import FileItem, Item, list_items, read_content
from poolsieve.moderation.verdict_files import read_verdicts
from poolsieve.moderation.verdicts import Verdict
from poolsieve.review.pictures import SIZE, thumbnail_jpeg
from poolsieve.store import ChunkRecord, Store, VerdictRecord
from poolsieve.store.exporting import write_csv
from poolsieve.store.schema import decisions, review_tasks, verdicts

COLUMNS = ["path", "decision", "decided_by", "decided_at", "comment", "status", "score"]
_LOAD = "load"


@dataclass(frozen=True)
class Judged:
    """What a run has judged.

    Attributes:
        name: Its table or folder, for people.
        digest: Hash of its verdicts.
        verdicts: Gives them.
        items: Gives what was judged, in order.
    """

    name: str
    digest: str
    verdicts: Callable[[], Iterator[Verdict]]
    items: Callable[[], Iterator[Item]]

    @classmethod
    def by_table(cls, table: Path, source: str) -> Judged:
        """As a table of `moderate` tells, and the images as they were given to it."""
        return cls(str(table), _digest(table), lambda: read_verdicts(table), lambda: list_items(source))


@dataclass(frozen=True)
class LoadedRun:
    """What was made of a table.

    Attributes:
        tasks: Images to review.
        missing: How many of them have no picture: they are not where they were, or not what they were.
    """

    tasks: int
    missing: int


def store_path(table: Path) -> Path:
    """Where the store of a table's review is."""
    return table.with_name(table.name + ".review.sqlite")


def open_run(
    judged: Judged, place: Path, *, rate: float, rng: np.random.Generator
) -> tuple[Store, LoadedRun | None]:
    """The store of a run's review, and what was loaded if it is new; an earlier review goes on.

    Args:
        judged: The run.
        place: The file of the store.
        rate: Share of clear images to look at.
        rng: Draws them.

    Raises:
        ValueError: The store is of another table, or it is no table.
    """
    if place.exists():
        store = Store(place)
        loaded = store.audit.newest(1, action=_LOAD)
        if not loaded or loaded[0].details["table"] != judged.digest:
            store.close()
            raise ValueError(
                f"{place} holds the review of another table, or of {judged.name} as it was; move it "
                "away, or name another file with --store"
            )
        return store, None
    part = place.with_name(place.name + ".part")
    part.unlink(missing_ok=True)
    with Store(part) as filling:
        found = _load(filling, judged, rate, rng)
        filling.audit.add("poolsieve", _LOAD, f"table {Path(judged.name).name}", {"table": judged.digest})
    os.replace(part, place)  # noqa: PTH105 - appears whole or not at all
    return Store(place), found


def _load(store: Store, judged: Judged, rate: float, rng: np.random.Generator) -> LoadedRun:
    store.settings.set("poolsieve", {"sampling_rate": rate, "blind": rate > 0, "thumbnail_days": 3650})
    tasks = missing = 0
    pairs = _with_items(judged.verdicts(), judged.items())
    for _, chunk in groupby(pairs, key=lambda pair: pair[0].chunk):
        records, last = [], None
        for verdict, item in chunk:
            sampled = verdict.status == "clear" and bool(rng.random() < rate)
            jpeg = None
            if verdict.flagged or sampled:
                jpeg = _picture(verdict, item)
                tasks += 1
                missing += jpeg is None
            records.append(_record(verdict, sampled, jpeg))
            last = verdict
        if last is not None:
            policy = f"bundle {last.bundle[:12]}"
            store.verdicts.record([ChunkRecord(policy, last.bundle, last.scheme, last.seed, records)])
    return LoadedRun(tasks, missing)


def _with_items(found: Iterator[Verdict], items: Iterator[Item]) -> Iterator[tuple[Verdict, Item]]:
    """Each verdict with the item at its position, or with the file of its name."""
    position, item = -1, None
    for verdict in found:
        while position < verdict.position and (item := next(items, None)) is not None:
            position += 1
        same = item is not None and Path(item.name).name == Path(verdict.path).name
        yield verdict, item if same and item is not None else FileItem(verdict.path)


def _picture(verdict: Verdict, item: Item) -> bytes | None:
    """The thumbnail of an image, if it still is the one that was judged."""
    content = read_content(item, None, at_least=SIZE)
    if content.image is None or content.sha256 != verdict.sha256:
        return None
    return thumbnail_jpeg(content.image)


def _record(verdict: Verdict, sampled: bool, jpeg: bytes | None) -> VerdictRecord:
    thumbnail = None if jpeg is None else lambda: jpeg
    return replace(VerdictRecord.of(verdict), thumbnail=thumbnail, sampled=sampled)


def write_decisions(store: Store, out: Path) -> int:
    """Write what stands decided, one row for each image in the order of decisions; returns their number."""
    latest = (
        select(
            verdicts.c.name.label("path"),
            review_tasks.c.outcome.label("decision"),
            decisions.c.actor.label("decided_by"),
            decisions.c.created_at.label("decided_at"),
            decisions.c.comment,
            verdicts.c.status,
            verdicts.c.score,
        )
        .join(review_tasks, review_tasks.c.verdict_id == verdicts.c.id)
        .join(decisions, decisions.c.task_id == review_tasks.c.id)
        .where(review_tasks.c.outcome.is_not(None) & decisions.c.undone_at.is_(None))
        .where(decisions.c.decision != "escalate")
        .order_by(decisions.c.id)
    )
    with store.database.reading() as connection, atomic_file(out) as stream:
        rows = (dict(row) for row in connection.execute(latest).mappings())
        return write_csv(rows, COLUMNS, stream)


def _digest(table: Path) -> str:
    with table.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
