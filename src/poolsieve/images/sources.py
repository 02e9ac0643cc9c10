"""Where images come from: folders, files, tables of paths, archives, arrays; always in a fixed order.

A source lists its items one by one and holds none of them, so that memory does not grow with their number.
Nothing is ever unpacked to disk.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import os
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image

from poolsieve.images.image_files import HEAD_BYTES, TAR_ENDINGS, is_archive, seems_image
from poolsieve.images.in_memory import HeldImage, held_item
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes, decode_image, read_limited

STANDARD_INPUT = "-"
PATH_COLUMNS = ("file", "path", "image", "filename")
"""Columns that hold the paths of a table, unless another one is named; the first that is there."""
LITTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files that systems leave in folders; the only ones that a folder's listing passes over."""
_INNER_ARCHIVE = "an archive within a source is not opened; give it as a source itself"
_ARCHIVE_ERRORS = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)

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

    def load(self) -> bytes:
        """Its bytes."""
        return read_limited(self.name, self.max_bytes)


@dataclass(frozen=True)
class MemberItem:
    """A member of an archive; `read` gives at most the number of bytes asked for."""

    name: str
    size: int
    read: Callable[[int], bytes]
    max_bytes: int = MAX_BYTES
    sequential: bool = False

    def load(self) -> bytes:
        """Its bytes, unpacked in memory; the size that the archive claims is not believed."""
        check_bytes(self.name, self.size, self.max_bytes)
        try:
            data = self.read(self.max_bytes + 1)
        except (RuntimeError, NotImplementedError) as error:  # what zipfile says of passwords and methods
            raise UnreadableImage(self.name, str(error)) from None
        except UnreadableImage:
            raise
        except (*_ARCHIVE_ERRORS, ValueError) as error:
            raise UnreadableImage(self.name, f"damaged in the archive ({error})") from None
        check_bytes(self.name, len(data), self.max_bytes)
        return data


@dataclass(frozen=True)
class Content:
    """What an item holds: an RGB image with the hash of the bytes it came from, or why there is none.

    `not_image` tells a file of another kind from an image that cannot be read.
    """

    sha256: str | None
    image: Image.Image | None
    reason: str | None
    not_image: bool = False


Loaded = bytes | Image.Image | OSError | ValueError | None
"""What an item held if it was loaded already, or the error of loading it; None if it was not."""


def read_content(item: Item, data: Loaded, at_least: int) -> Content:
    """Read and decode one item; whatever is wrong with it becomes the reason.

    Args:
        item: What to read.
        data: What it holds or the error, if it was loaded already.
        at_least: The size that the image will be brought to, as in `decode_image`.
    """
    sha256 = content = None
    try:
        if isinstance(data, Exception):
            raise data
        content = item.load() if data is None else data
        if isinstance(content, Image.Image):
            return Content(hashlib.sha256(content.tobytes()).hexdigest(), content, None)
        sha256 = hashlib.sha256(content).hexdigest()
        return Content(sha256, decode_image(content, item.name, at_least=at_least), None)
    except UnreadableImage as error:
        if not isinstance(item, FileItem | MemberItem):  # what is given as an image is one
            return Content(sha256, None, error.reason)
        head = content[:HEAD_BYTES] if isinstance(content, bytes) else _head_of(item)
        if head is None or seems_image(item.name, head):
            return Content(sha256, None, error.reason)
        reason = _INNER_ARCHIVE if is_archive(item.name) else error.reason
        return Content(sha256, None, reason, not_image=True)
    except FileNotFoundError:
        return Content(None, None, "the file does not exist (any more)")
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        return Content(None, None, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _head_of(item: Item) -> bytes | None:
    """The first bytes of a file that was too large to be read; None if it cannot be looked into."""
    if not isinstance(item, FileItem) or not Path(item.name).is_file():
        return None
    with suppress(OSError), Path(item.name).open("rb") as stream:
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
            to that file; a zip or tar archive; a single image file; `-` for paths on standard input, one a
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
    """The item of one image; a path is that of an image file.

    Args:
        image: A path, or an image in memory as in `list_items`.
        position: Its number, for the name of an image that has none of its own.
        name: What to call an image that is no path.

    Raises:
        ValueError: If an array is no RGB image, or a path is given another name.
        TypeError: If it is something else.
    """
    if isinstance(image, str | os.PathLike):
        if name is not None:
            raise ValueError(f"the image {os.fspath(image)!r} is named by its path; leave out name={name!r}")
        return FileItem(os.fspath(image))
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
    lower = path.lower()
    if Path(path).is_dir():
        return _files(outputs.leave_out(path, _walk(path)), max_bytes)
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
        return _zip_items(path, max_bytes)
    if lower.endswith(TAR_ENDINGS):
        return _tar_items(path, max_bytes)
    return iter([FileItem(path, max_bytes)])


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
        if path != STANDARD_INPUT and not Path(path).exists():
            yield FileItem(path, max_bytes)  # reading it tells why it cannot be read
        else:
            yield from _items_of_path(path, column, max_bytes, outputs)


def _files(paths: Iterable[str], max_bytes: int) -> Iterator[Item]:
    return (FileItem(path, max_bytes) for path in paths if path)


def _walk(folder: str) -> Iterator[str]:
    """All files below a folder by name, folders among files; links to folders are not followed."""
    return _below(folder, _entries(folder))


def _below(folder: str, entries: Iterable[tuple[str, bool]]) -> Iterator[str]:
    for name, is_folder in entries:
        path = os.path.join(folder, name)  # noqa: PTH118 - a million Path objects cost seconds
        if is_folder:
            try:
                inside = _entries(path)
            except OSError:  # it is gone, or nobody may look into it
                yield path  # reading it tells why
            else:
                yield from _below(path, inside)
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
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
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


def _zip_items(path: str, max_bytes: int) -> Iterator[Item]:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: no zip archive, or a damaged one ({error})") from None
    for member in archive.infolist():  # left open: items are read after the listing has ended
        if not member.is_dir():
            name = f"{path}/{member.filename}"
            yield MemberItem(name, member.file_size, _zip_reader(archive, member), max_bytes)


def _zip_reader(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(limit: int) -> bytes:
        with archive.open(member) as content:
            return content.read(limit)

    return read


def _tar_items(path: str, max_bytes: int) -> Iterator[Item]:
    try:
        archive = tarfile.open(path, mode="r|*")  # noqa: SIM115 - closed below
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{path}: no tar archive, or a damaged one ({error})") from None
    with archive:
        while True:
            try:
                member = archive.next()
            except (*_ARCHIVE_ERRORS, OSError) as error:
                # What comes before the damage is judged; that something is missing is on record.
                yield MemberItem(path, 0, _refuse(path, f"the archive is damaged from here on ({error})"))
                return
            if member is None:
                return
            archive.members.clear()  # type: ignore[attr-defined]  # it would grow with the archive
            name = f"{path}/{member.name}"
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield MemberItem(name, member.size, content.read, max_bytes, sequential=True)
            elif not member.isdir():
                yield MemberItem(name, 0, _refuse(name, "a link or device in an archive is not followed"))


def _refuse(name: str, reason: str) -> Callable[[int], bytes]:
    def read(limit: int) -> bytes:
        raise UnreadableImage(name, reason)

    return read
