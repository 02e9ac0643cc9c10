"""Where images come from: folders, files, tables, archives, object stores, arrays; in a fixed order.

A source lists its items one by one and holds none of them, so that memory does not grow with their number.
Nothing is ever unpacked to disk.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from PIL import Image

from poolsieve.images.archives import MemberItem, refused_item, tar_items, zip_items
from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.image_files import HEAD_BYTES, TAR_ENDINGS, is_archive, seems_image
from poolsieve.images.in_memory import HeldImage, held_item
from poolsieve.images.locations import Location, is_remote
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.path_tables import TABLE_ENDINGS, table_paths
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes, read_limited

STANDARD_INPUT = "-"
LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that systems leave in folders; the only ones that a folder's listing passes over."""
_INNER_ARCHIVE = "an archive within a source is not opened; give it as a source itself"
_SMALL_FILE = 1_000_000
_MAX_PATH = 16_384
"""Characters of a path; no system has so long ones, and readers of CSV refuse cells of 131,072."""

AnyImage = str | os.PathLike[str] | HeldImage
AnySource = AnyImage | Iterable[AnyImage]


class Item(Protocol):
    """One image to be read: its name, and how to get at it."""

    @property
    def name(self) -> str:
        """The path, or the member of an archive as `archive/member`."""

    @property
    def sequential(self) -> bool:
        """Whether it must be loaded before the next item is asked for."""

    def load(self) -> bytes | Image.Image:
        """The bytes of the file, or an image in RGB; raises OSError or UnreadableImage."""


@dataclass(frozen=True)
class FileItem:
    """A file on disk."""

    name: str
    max_bytes: int = MAX_BYTES
    sequential: Literal[False] = False

    @property
    def size(self) -> int:
        """Bytes that loading it takes, as far as is known."""
        try:
            return os.stat(self.name).st_size  # noqa: PTH116 - a Path costs more than the call
        except (OSError, ValueError):
            return 0

    def load(self) -> bytes:
        """Its bytes."""
        return read_limited(self.name, self.max_bytes)


@dataclass(frozen=True)
class StoredItem:
    """A file in an object store; `version` is the ETag that it had when it was listed, if that is known."""

    name: str
    size: int = 0
    version: str | None = None
    max_bytes: int = MAX_BYTES
    sequential: Literal[False] = False

    def load(self) -> bytes:
        """Its bytes."""
        check_bytes(self.name, self.size, self.max_bytes)
        return Location(self.name).read_bytes(self.max_bytes, self.version)


def file_item(path: str, max_bytes: int = MAX_BYTES) -> FileItem | StoredItem:
    """The item of a file, on disk or in an object store."""
    return StoredItem(path, max_bytes=max_bytes) if is_remote(path) else FileItem(path, max_bytes)


@dataclass(frozen=True)
class Content:
    """What an item holds: an RGB image with the hash of the bytes it came from, or why there is none.

    `not_image` tells a file of another kind from an image that cannot be read.
    """

    sha256: str | None
    image: Image.Image | None
    reason: str | None
    not_image: bool = False


Result = TypeVar("Result")
Loaded = bytes | Image.Image | OSError | ValueError | None
"""What an item held if it was loaded already, or the error of loading it; None if it was not."""


def read_content(item: Item, data: Loaded, at_least: int) -> Content:
    """Read and decode one item; whatever is wrong with it becomes the reason.

    `data` is what it holds or the error, if it was loaded already; `at_least` as in `decode_image`.
    """

    def decode(content: bytes | Image.Image) -> Image.Image:
        if isinstance(content, Image.Image):
            return content
        return Image.fromarray(shared_decoder().decode(content, item.name, at_least=at_least)[0])

    return Content(*read_item(item, data, decode))


def read_item(
    item: Item, data: Loaded, decode: Callable[[bytes | Image.Image], Result]
) -> tuple[str | None, Result | None, str | None, bool]:
    """Hash and content of an item, or why there is none, and whether it is no image at all.

    `decode` makes something of what it holds, or raises UnreadableImage; `data` as in `read_content`.
    """
    sha256 = content = None
    try:
        if isinstance(data, Exception):
            raise data
        with nullcontext() if data is not None or _is_small(item) else room_for(item):
            content = item.load() if data is None else data
            whole = content.tobytes() if isinstance(content, Image.Image) else content
            sha256 = hashlib.sha256(whole).hexdigest()
            return sha256, decode(content), None, False
    except UnreadableImage as error:
        reason, not_image = _told_apart(item, content if isinstance(content, bytes) else None, error)
        return sha256, None, reason, not_image
    except FileNotFoundError:
        return None, None, "the file does not exist (any more)", False
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        return None, None, f"cannot be read: {getattr(error, 'strerror', None) or error}", False


def _told_apart(item: Item, content: bytes | None, error: UnreadableImage) -> tuple[str, bool]:
    """The reason, and whether the item is a file of another kind and not an image that cannot be read."""
    if not isinstance(item, FileItem | StoredItem | MemberItem):  # what is given as an image is one
        return error.reason, False
    head = _head_of(item) if content is None else content[:HEAD_BYTES]
    if head is None or seems_image(item.name, head):
        return error.reason, False
    return _INNER_ARCHIVE if is_archive(item.name) else error.reason, True


def room_for(item: Item) -> AbstractContextManager[None]:
    """Its share of the bytes that all readers may hold together."""
    return shared_decoder().file_bytes.hold(min(getattr(item, "size", 0), MAX_BYTES))


def _is_small(item: Item) -> bool:
    """Whether it need not be counted, as long as only a few are loaded at a time."""
    return getattr(item, "size", 0) <= _SMALL_FILE


def _head_of(item: Item) -> bytes | None:
    """The first bytes of a file that was too large to be read; None if it cannot be looked into."""
    if isinstance(item, StoredItem) or (isinstance(item, FileItem) and Path(item.name).is_file()):
        with suppress(OSError), Location(item.name).open() as stream:
            return stream.read(HEAD_BYTES)
    return None


def list_items(
    source: AnySource,
    *,
    column: str | None = None,
    max_bytes: int = MAX_BYTES,
    outputs: OwnOutputs | None = None,
) -> Iterator[Item]:
    """The items of a source, in order, one at a time.

    Args:
        source: A folder (all files below it, by name); a CSV or JSONL file with a column of paths, relative
            to that file; a zip or tar archive; a single image file; any of these in an object store
            (`s3://`, `gs://`, `az://`), also where tables name them; `-` for paths on standard input, one a
            line; an image in memory, which is the content of a file (bytes), a file that is open for reading
            bytes, one of Pillow's images, or an array (H, W, 3), uint8, RGB; an array (N, H, W, 3) of such
            images; or anything that can be iterated over and gives any of these but the last.
        column: Column of the paths in a CSV or JSONL file; by default the first of `PATH_COLUMNS`.
        max_bytes: Larger files are not read.
        outputs: Tells which files below a folder are our own, which are not listed; by default those that
            earlier runs wrote.

    Raises:
        FileNotFoundError: If a source given by one path does not exist. Files that are named in a list or
            table and do not exist are items that cannot be read.
        ValueError: If a table has no such column, an archive is damaged, or an array is no RGB image.
        TypeError: If it is or gives something else.
    """
    own = OwnOutputs() if outputs is None else outputs
    if isinstance(source, str | os.PathLike):
        return _items_of_path(os.fspath(source), column, max_bytes, own)
    if not (isinstance(source, np.ndarray) and source.ndim == 4):
        held = held_item(source, 0, max_bytes=max_bytes, reused=False)
        if held is not None:
            return iter([held])
    if not isinstance(source, Iterable):
        raise _wrong_type("the source", source)
    return _items_of_sequence(source, column, max_bytes, own)


def image_item(image: AnyImage, position: int = 0, *, name: str | None = None) -> Item:
    """The item of one image: a path of an image file, or an image in memory as in `list_items`.

    One that has no name of its own is named as given, or by its position. Raises ValueError if an array is no
    RGB image or a path is given another name, TypeError if it is something else.
    """
    if isinstance(image, str | os.PathLike):
        if name is not None:
            raise ValueError(f"the image {os.fspath(image)!r} is named by its path; leave out name={name!r}")
        return file_item(os.fspath(image))
    held = held_item(image, position, name=name)
    if held is None:
        raise _wrong_type("the image", image)
    return held


def _wrong_type(what: str, value: object) -> TypeError:
    return TypeError(
        f"{what} is a {type(value).__name__}; give a path, bytes, an open file, a PIL image or a uint8 array "
        "(H, W, 3)"
    )


def _items_of_path(path: str, column: str | None, max_bytes: int, outputs: OwnOutputs) -> Iterator[Item]:
    if path == STANDARD_INPUT:
        # Bytes, as file names need not be proper text.
        return _files((os.fsdecode(line.rstrip(b"\r\n")) for line in sys.stdin.buffer), max_bytes)
    lower, kind = path.lower(), Location(path).kind()
    if kind == "folder":
        if is_remote(path):
            return _stored(path, max_bytes, outputs)
        return _files(outputs.leave_out(path, _walk(path)), max_bytes)
    if kind is None:
        raise FileNotFoundError(
            f"{path} does not exist; give a folder, a CSV or JSONL file, an archive, an image, or - for "
            "paths on standard input"
        )
    if lower.endswith(TABLE_ENDINGS):
        return _files(table_paths(path, column), max_bytes)
    if lower.endswith(".zip"):
        return zip_items(path, max_bytes)
    if lower.endswith(TAR_ENDINGS):
        return tar_items(path, max_bytes)
    return iter([file_item(path, max_bytes)])


def _items_of_sequence(
    sources: Iterable[Any], column: str | None, max_bytes: int, outputs: OwnOutputs
) -> Iterator[Item]:
    reused = not isinstance(sources, Collection)
    for position, source in enumerate(sources):
        if not isinstance(source, str | os.PathLike):
            held = held_item(source, position, max_bytes=max_bytes, reused=reused)
            if held is None:
                raise _wrong_type(f"source {position}", source)
            yield held
            continue
        path = os.fspath(source)
        if path != STANDARD_INPUT and Location(path).kind() is None:
            yield file_item(path, max_bytes)  # reading it tells why it cannot be read
        else:
            yield from _items_of_path(path, column, max_bytes, outputs)


def _files(paths: Iterable[str], max_bytes: int) -> Iterator[Item]:
    for path in paths:
        if len(path) > _MAX_PATH:
            yield refused_item(f"{path[:80]}...", f"a path of {len(path):,} characters")
        elif path:
            yield file_item(path, max_bytes)


def _stored(folder: str, max_bytes: int, outputs: OwnOutputs) -> Iterator[Item]:
    for file in outputs.leave_out_stored(Location(folder).files()):
        if file.name.rpartition("/")[2] not in LITTER:
            yield StoredItem(file.name, file.size, file.version, max_bytes)


def _walk(folder: str) -> Iterator[str]:
    """All files below a folder by name, folders among files; links to folders are not followed."""
    return _below(folder, _entries(folder))


def _below(folder: str, entries: Iterable[tuple[str, bool]]) -> Iterator[str]:
    # A stack of its own, as folders may be deeper than Python's.
    levels = [(folder, iter(entries))]
    while levels:
        folder, level = levels[-1]
        name, is_folder = next(level, ("", False))
        if not name:
            levels.pop()
            continue
        path = os.path.join(folder, name)  # noqa: PTH118 - a million Path objects cost seconds
        if is_folder:
            try:
                inside = _entries(path)
            except OSError:  # it is gone, or nobody may look into it
                yield path  # reading it tells why
            else:
                levels.append((path, iter(inside)))
        elif name not in LITTER and not (os.path.islink(path) and os.path.isdir(path)):  # noqa: PTH112, PTH114
            yield path


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Names in a folder, sorted, and whether they are folders."""
    with os.scandir(folder) as entries:
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
