"""Which images a run judges: put on record once, a file for each segment, before anything is judged."""

from __future__ import annotations

import hashlib
import io
import os
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from PIL import Image

from poolsieve.files import import_parquet
from poolsieve.images.archives import MemberItem, refused_item
from poolsieve.images.image_files import is_archive
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.reading import UnreadableImage
from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import Item, Loaded, StoredItem, file_item, list_items

if TYPE_CHECKING:
    from poolsieve.distributed.run_folder import RunFolder, RunSettings

_THREADS = 4 * min(8, os.cpu_count() or 1)
"""Threads that hash images; most of their time they wait for a store."""


@dataclass(frozen=True)
class ListedImage:
    """An image as a listing names it.

    Attributes:
        name: Its path, or `archive/member`.
        size: Bytes, as far as they are known.
        version: The ETag that it had, if it lies in a store that tells it.
        archive: The archive that it is in.
        member: Its number there.
        reason: Why it cannot be read, if that is known already.
    """

    name: str
    size: int = 0
    version: str | None = None
    archive: str | None = None
    member: int | None = None
    reason: str | None = None


def write_listed(images: Sequence[ListedImage]) -> bytes:
    """A listing as Parquet; names are kept as bytes, as they need not be proper text."""
    arrow, parquet = import_parquet()
    schema = arrow.schema(
        [
            ("name", arrow.binary()),
            ("size", arrow.int64()),
            ("version", arrow.string()),
            ("archive", arrow.binary()),
            ("member", arrow.int64()),
            ("reason", arrow.string()),
        ]
    )
    rows = [{key: _kept(value, key) for key, value in asdict(image).items()} for image in images]
    stream = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), stream)
    return stream.getvalue()


def read_listed(data: bytes) -> list[ListedImage]:
    """The reverse of `write_listed`."""
    _, parquet = import_parquet()
    rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    names = [field.name for field in fields(ListedImage)]
    return [ListedImage(**{name: _given(row[name]) for name in names}) for row in rows]


def _kept(value: Any, key: str) -> Any:
    return (
        value.encode("utf-8", "surrogatepass") if key in ("name", "archive") and value is not None else value
    )


def _given(value: Any) -> Any:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


class ListedItems:
    """The items of listed images.

    A worker keeps one, so that archives are passed over once, and not anew for every segment.
    """

    def __init__(self) -> None:
        self._archive: str | None = None
        self._members: Iterator[Item] = iter(())
        self._next = 0

    def items(self, images: Iterable[ListedImage]) -> Iterator[Item]:
        """The items, each to be loaded before the next is asked for if it says so."""
        for image in images:
            if image.reason is not None:
                yield refused_item(image.name, image.reason)
            elif image.archive is not None and image.member is not None:
                yield self._member(image.archive, image.member, image.name)
            elif image.version is not None or image.size:
                yield StoredItem(image.name, image.size, image.version)
            else:
                yield file_item(image.name)

    def _member(self, archive: str, number: int, name: str) -> Item:
        if archive != self._archive or number < self._next:
            self._archive, self._members, self._next = archive, list_items(archive), 0
        found = next(islice(self._members, number - self._next, None), None)
        self._next = number + 1
        if found is None or found.name != name:
            return refused_item(name, "the archive has changed since it was listed")
        return found


def list_images(source: Sequence[str], column: str | None, outputs: OwnOutputs) -> Iterator[ListedImage]:
    """All images of some sources, in order, one at a time, as they are put on record."""
    for name in source:
        # One source that does not exist is an error, one of several is an image that cannot be read.
        items = list_items(name if len(source) == 1 else [name], column=column, outputs=outputs)
        if is_archive(name):
            for number, item in enumerate(items):
                yield ListedImage(item.name, archive=name, member=number)
        else:
            yield from map(_listed, items)


def _listed(item: Item) -> ListedImage:
    if isinstance(item, StoredItem):
        return ListedImage(item.name, item.size, item.version)
    reason = None
    if isinstance(item, MemberItem):  # a line of a table that names no path
        try:
            item.load()
        except UnreadableImage as error:
            reason = error.reason
    return ListedImage(item.name, reason=reason)


def unknown_images(images: Iterable[ListedImage], known: Container[bytes]) -> Iterator[ListedImage]:
    """The images whose content no earlier run has judged; those that cannot be read are among them.

    Args:
        images: Are read and hashed, on threads.
        known: sha256 of what was judged.
    """
    listed, waiting = ListedItems(), deque[ListedImage]()

    def items() -> Iterator[Item]:
        for image in images:
            waiting.append(image)
            yield from listed.items([image])

    for digest in read_ahead(items(), _digest, threads=_THREADS, ahead=4 * _THREADS):
        image = waiting.popleft()
        if digest is None or digest not in known:
            yield image


def _digest(item: Item, data: Loaded) -> bytes | None:
    try:
        content = item.load() if data is None else data
    except (OSError, ValueError):
        return None
    if isinstance(content, Exception):
        return None
    whole = content.tobytes() if isinstance(content, Image.Image) else content
    return hashlib.sha256(whole).digest()


def list_segments(folder: RunFolder, settings: RunSettings, images: Iterator[ListedImage]) -> Iterator[int]:
    """Put images on record, a segment at a time; gives the numbers of all segments as they are there.

    What an earlier run of the same folder put on record stays, and the listing goes on behind it.

    Args:
        folder: The run's.
        settings: What run it is.
        images: All images, from the first on.

    Raises:
        ValueError: The source has not any more what was listed last.
    """
    recorded = folder.listed()
    yield from recorded
    if folder.listing_ended:
        return
    if recorded:
        last = folder.read_listing(recorded[-1])[-1].name
        if not any(image.name == last for image in images):
            raise ValueError(
                f"{last} was listed when the run was stopped, and is not in the source any more; start anew "
                "with --force"
            )
    segment = len(recorded)
    while some := list(islice(images, settings.images)):
        folder.write_listing(segment, some)
        yield segment
        segment += 1
    folder.end_listing()
