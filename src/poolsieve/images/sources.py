"""Where images come from: folders, files, tables of paths, archives, arrays; always in a fixed order.

A source lists its items one by one and holds none of them, so that memory does not grow with their number.
Nothing is ever unpacked to disk.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from poolsieve.images.archives import TAR_ENDINGS, tar_items, zip_items
from poolsieve.images.guarded_decoding import shared_decoder
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, read_limited
from poolsieve.images.transforms import Squaring, plain_view

STANDARD_INPUT = "-"
PATH_COLUMNS = ("file", "path", "image", "filename")
"""Columns that hold the paths of a table, unless another one is named; the first that is there."""
LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that systems leave in folders; the only ones that a folder's listing passes over."""
_SMALL_FILE = 1_000_000
_MAX_LINE = 1_000_000
"""Characters of a line in a JSONL file."""

AnySource = (
    str | os.PathLike[str] | NDArray[np.uint8] | Iterable["str | os.PathLike[str] | NDArray[np.uint8]"]
)


class Item(Protocol):
    """One image to be read: its name, and how to get at it."""

    @property
    def name(self) -> str:
        """The path, or the member of an archive as `archive/member`."""

    @property
    def sequential(self) -> bool:
        """Whether it must be loaded before the next item is asked for."""

    def load(self) -> bytes | NDArray[np.uint8]:
        """The bytes of the file, or pixels; raises OSError or UnreadableImage."""


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
class ArrayItem:
    """Pixels from Python."""

    name: str
    pixels: NDArray[np.uint8]
    sequential: Literal[False] = False

    def load(self) -> NDArray[np.uint8]:
        """The pixels themselves."""
        return self.pixels


@dataclass(frozen=True)
class Content:
    """What an item holds: an RGB image with the hash of the bytes it came from, or why there is none."""

    sha256: str | None
    image: Image.Image | None
    reason: str | None


@dataclass(frozen=True)
class Views:
    """What an item holds as a network takes it, or why there is nothing.

    Attributes:
        sha256: Hash of the bytes it came from.
        pixels: Arrays of shape (size, size, 3): one, or several of an animation.
        reason: Why there are none.
    """

    sha256: str | None
    pixels: Sequence[NDArray[np.uint8]]
    reason: str | None


Loaded = bytes | NDArray[np.uint8] | OSError | ValueError | None
"""What an item held if it was loaded already, or the error of loading it; None if it was not."""
Result = TypeVar("Result")


def read_ahead(
    items: Iterable[Item], prepare: Callable[[Item, Loaded], Result], *, threads: int, ahead: int
) -> Iterator[Result]:
    """Prepare items on threads, ahead of whoever takes the results, and give them in order.

    Args:
        items: Listed in the calling thread, no further than `ahead` items.
        prepare: Called on a thread with an item and, if the item had to be loaded at once, its content.
        threads: Number of threads.
        ahead: The most items that are being prepared or wait to be taken.
    """
    workers = ThreadPoolExecutor(threads, thread_name_prefix="reading")
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            room = ExitStack()
            if item.sequential:
                room.enter_context(_room_for(item))
            task = workers.submit(prepare, item, _load_if_sequential(item))
            task.add_done_callback(lambda _, room=room: room.close())  # type: ignore[misc]
            waiting.append(task)
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        workers.shutdown(wait=True, cancel_futures=True)


def _load_if_sequential(item: Item) -> Loaded:
    if not item.sequential:
        return None
    try:
        return item.load()
    except (OSError, ValueError) as error:
        return error


def _room_for(item: Item) -> AbstractContextManager[None]:
    """Its share of the bytes that all readers may hold together."""
    return shared_decoder().file_bytes.hold(min(getattr(item, "size", 0), MAX_BYTES))


def _is_small(item: Item) -> bool:
    """Whether it need not be counted, as long as only a few are loaded at a time."""
    return getattr(item, "size", 0) <= _SMALL_FILE


def read_content(item: Item, data: Loaded, at_least: int) -> Content:
    """Read and decode one item; whatever is wrong with it becomes the reason.

    Args:
        item: What to read.
        data: What it holds or the error, if it was loaded already.
        at_least: The size that the image will be brought to, as in `decode_image`.
    """

    def decode(content: bytes | NDArray[np.uint8]) -> Image.Image:
        if isinstance(content, np.ndarray):
            return Image.fromarray(content)
        return Image.fromarray(shared_decoder().decode(content, item.name, at_least=at_least)[0])

    return Content(*_read(item, data, decode))


def read_views(item: Item, data: Loaded, *, size: int, squaring: Squaring, frames: int = 1) -> Views:
    """Read one item as a network takes it; whatever is wrong with it becomes the reason.

    Args:
        item: What to read.
        data: What it holds or the error, if it was loaded already.
        size: Sides of the square.
        squaring: How an image becomes a square, as in `plain_view`.
        frames: The most frames that are taken of an animation, evenly spaced.
    """

    def decode(content: bytes | NDArray[np.uint8]) -> Sequence[NDArray[np.uint8]]:
        if isinstance(content, np.ndarray):
            return [plain_view(Image.fromarray(content), size, squaring)]
        decoder = shared_decoder()
        return decoder.decode(content, item.name, at_least=size, squaring=squaring, frames=frames)

    sha256, pixels, reason = _read(item, data, decode)
    return Views(sha256, pixels or (), reason)


def _read(
    item: Item, data: Loaded, decode: Callable[[bytes | NDArray[np.uint8]], Result]
) -> tuple[str | None, Result | None, str | None]:
    """Hash and content of an item, or why there is none."""
    sha256 = None
    try:
        if isinstance(data, Exception):
            raise data
        with nullcontext() if data is not None or _is_small(item) else _room_for(item):
            content = item.load() if data is None else data
            if isinstance(content, np.ndarray):
                sha256 = hashlib.sha256(content.data).hexdigest()
            else:
                sha256 = hashlib.sha256(content).hexdigest()
            return sha256, decode(content), None
    except UnreadableImage as error:
        return sha256, None, error.reason
    except FileNotFoundError:
        return None, None, "the file does not exist (any more)"
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        return None, None, f"cannot be read: {getattr(error, 'strerror', None) or error}"


def list_items(source: AnySource, *, column: str | None = None, max_bytes: int = MAX_BYTES) -> Iterator[Item]:
    """The items of a source, in order, one at a time.

    Args:
        source: A folder (all files below it, by name); a CSV or JSONL file with a column of paths, relative
            to that file; a zip or tar archive; a single image file; `-` for paths on standard input, one a
            line; a sequence of any of these; an array (N, H, W, 3) or a sequence of arrays (H, W, 3), uint8.
        column: Column of the paths in a CSV or JSONL file; by default the first of `PATH_COLUMNS`.
        max_bytes: Larger files are not read.

    Raises:
        FileNotFoundError: If a source given by one path does not exist. Files that are named in a list or
            table and do not exist are items that cannot be read.
        ValueError: If a table has no such column, an archive is damaged, or an array is no RGB image.
    """
    if isinstance(source, np.ndarray):
        if source.ndim != 4:
            raise ValueError(f"an array of images has shape (N, H, W, 3), not {source.shape}")
        return _array_items(source)
    if isinstance(source, str | os.PathLike):
        return _items_of_path(os.fspath(source), column, max_bytes)
    return _items_of_sequence(source, column, max_bytes)


def _items_of_path(path: str, column: str | None, max_bytes: int) -> Iterator[Item]:
    if path == STANDARD_INPUT:
        # Bytes, as file names need not be proper text.
        return _files((os.fsdecode(line.rstrip(b"\r\n")) for line in sys.stdin.buffer), max_bytes)
    lower = path.lower()
    if Path(path).is_dir():
        return _files(_walk(path), max_bytes)
    if not Path(path).exists():
        raise FileNotFoundError(
            f"{path} does not exist; give a folder, a CSV or JSONL file, an archive, an image, or - for "
            "paths on standard input"
        )
    if lower.endswith(".csv"):
        return _files(_relative(path, _csv_paths(Path(path), column)), max_bytes)
    if lower.endswith((".jsonl", ".ndjson")):
        return _files(_relative(path, _jsonl_paths(Path(path), column)), max_bytes)
    if lower.endswith(".zip"):
        return zip_items(path, max_bytes)
    if lower.endswith(TAR_ENDINGS):
        return tar_items(path, max_bytes)
    return iter([FileItem(path, max_bytes)])


def _items_of_sequence(sources: Iterable[Any], column: str | None, max_bytes: int) -> Iterator[Item]:
    for position, source in enumerate(sources):
        if isinstance(source, np.ndarray):
            yield _array_item(source, position)
            continue
        if not isinstance(source, str | os.PathLike):
            raise ValueError(
                f"source {position} is a {type(source).__name__}; give paths or uint8 arrays (H, W, 3)"
            )
        path = os.fspath(source)
        if path != STANDARD_INPUT and not Path(path).exists():
            yield FileItem(path, max_bytes)  # reading it tells why it cannot be read
        else:
            yield from _items_of_path(path, column, max_bytes)


def _files(paths: Iterable[str], max_bytes: int) -> Iterator[Item]:
    return (FileItem(path, max_bytes) for path in paths if path)


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


def _relative(table: str, paths: Iterable[str]) -> Iterator[str]:
    folder = Path(table).parent
    return (str(folder / path) for path in paths)


def _csv_paths(table: Path, column: str | None) -> Iterator[str]:
    with table.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        try:
            name = _path_column(table, reader.fieldnames or (), column)
            for row in reader:
                yield row[name] or ""
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{table}, after line {reader.line_num}: not a CSV table in UTF-8 ({error})"
            ) from None


def _jsonl_paths(table: Path, column: str | None) -> Iterator[str]:
    with table.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_MAX_LINE), ""), 1):
            if not line.strip():
                continue
            if len(line) == _MAX_LINE:
                raise ValueError(f"{table}, line {number}: longer than {_MAX_LINE:,} characters")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{table}, line {number}: not JSON ({error})") from None
            if not isinstance(record, dict):
                raise ValueError(f"{table}, line {number}: not an object with a path in it")
            path = record[_path_column(table, tuple(record), column)]
            if not isinstance(path, str):
                raise ValueError(f"{table}, line {number}: the path is {path!r}, not a text")
            yield path


def _path_column(table: Path, columns: Sequence[str], wanted: str | None) -> str:
    names = PATH_COLUMNS if wanted is None else (wanted,)
    for name in names:
        if name in columns:
            return name
    there = ", ".join(map(repr, columns)) or "none"
    raise ValueError(
        f"{table} has no column {' or '.join(map(repr, names))}; it has {there}. "
        "Name the column of the paths with --column"
    )


def _array_items(arrays: Iterable[NDArray[np.uint8]]) -> Iterator[Item]:
    return (_array_item(array, position) for position, array in enumerate(arrays))


def _array_item(array: NDArray[np.uint8], position: int) -> Item:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
        raise ValueError(
            f"array {position} has shape {array.shape} and type {array.dtype}; give RGB as uint8 (H, W, 3)"
        )
    return ArrayItem(f"array[{position}]", np.ascontiguousarray(array))
