"""Members of zip and tar archives, read in memory one after the other; nothing is unpacked to disk.

Archives come from strangers too. Sizes, counts and names in them are claims, and a few bytes can unpack to
gigabytes, so there are limits on all of these. Where an archive is damaged or goes beyond a limit its listing
ends with one item that says so; what came before keeps its place.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from poolsieve.images.locations import Location
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes

MAX_RATIO = 200
"""An archive may unpack to this many times its own size, and `MAX_BYTES` on top; images hardly shrink."""
MAX_MEMBERS = 10_000_000
"""Members that are listed of a tar archive."""
MAX_DIRECTORY = 32_000_000
"""Bytes of a zip archive's directory, which is read as a whole: about 300,000 members."""
MAX_HEADER = 1_000_000
"""Bytes of the extended headers of a member of a tar archive."""
MAX_NAME = 4096
"""Characters of a member's name."""
MAX_SECONDS = 30.0
"""Processor time to unpack one member, or to pass over it."""
_XZ_MEMORY = 128 << 20
_PART = 1 << 16
_STORE_BUFFER = 1 << 20
"""Bytes of one request to an object store."""
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ARCHIVE_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RecursionError),
    *(OSError, ValueError, OverflowError, MemoryError),
)
_EXTENDED_HEADERS = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


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
        except UnreadableImage:
            raise
        except (RuntimeError, NotImplementedError) as error:  # what zipfile says of passwords and methods
            raise UnreadableImage(self.name, str(error)) from None
        except _ARCHIVE_ERRORS as error:
            raise UnreadableImage(self.name, f"damaged in the archive ({error})") from None
        check_bytes(self.name, len(data), self.max_bytes)
        return data


def zip_items(path: str, max_bytes: int) -> Iterator[MemberItem]:
    """The members of a zip archive, in the order of its directory; ValueError if that cannot be read."""
    location = Location(path)
    raw = location.open() if location.remote else io.FileIO(path)
    size = cast(Any, raw).size() if location.remote else Path(path).stat().st_size
    stream = _DirectoryReader(cast(io.RawIOBase, raw), _STORE_BUFFER if location.remote else _PART)
    try:
        archive = zipfile.ZipFile(stream)
    except (*_ARCHIVE_ERRORS, NotImplementedError) as error:
        raise ValueError(f"{path}: no zip archive, or a damaged one ({error})") from None
    stream.largest = None
    left = MAX_RATIO * size + MAX_BYTES
    for member in archive.infolist():  # left open: items are read after the listing has ended
        if member.filename.endswith("/"):
            continue
        left -= min(member.file_size, max_bytes)  # more is not unpacked
        if left < 0:
            yield refused_item(path, _too_much())
            return
        yield _named(path, member.filename, member.file_size, _zip_reader(archive, member), max_bytes)


class _DirectoryReader(io.BufferedReader):
    """A file that is not read in too large parts, as long as there is a largest one."""

    largest: int | None = MAX_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        if self.largest is not None and size is not None and size > self.largest:
            raise zipfile.BadZipFile(
                f"a directory of {size:,} bytes, more than {self.largest:,}; make several archives, or a tar"
            )
        return super().read(size)


def _zip_reader(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(limit: int) -> bytes:
        if member.compress_type not in _ZIP_METHODS:  # others take any memory they like
            raise NotImplementedError(
                f"compressed by method {member.compress_type}; only stored and deflated members are read"
            )
        watch, parts = _Watch(), []
        with archive.open(member) as content:
            while limit > 0 and (part := content.read(min(limit, _PART))):
                parts.append(part)
                limit -= len(part)
                watch.look()
        return b"".join(parts)

    return read


def tar_items(path: str, max_bytes: int) -> Iterator[MemberItem]:
    """The members of a tar archive, plain or compressed; each is to be read before the next is asked for."""
    file, size = Location(path).open_from_start()
    with file:
        stream = _Unpacked(file, size)
        try:
            archive = tarfile.open(  # noqa: SIM115 - closed below
                fileobj=cast(IO[bytes], stream), mode="r|", tarinfo=_LimitedTarInfo
            )
        except _ARCHIVE_ERRORS as error:
            raise ValueError(f"{path}: no tar archive, or a damaged one ({error})") from None
        with archive:
            yield from _members(path, archive, stream, max_bytes)


def _members(path: str, archive: tarfile.TarFile, stream: _Unpacked, max_bytes: int) -> Iterator[MemberItem]:
    for _ in range(MAX_MEMBERS):
        stream.watch = _Watch()
        try:
            member = archive.next()
            if member is None:
                return
            content = archive.extractfile(member) if member.isreg() else None
        except _ARCHIVE_ERRORS as error:
            # What comes before the damage is judged; that something is missing is on record.
            yield refused_item(path, f"the archive is damaged from here on ({error})")
            return
        archive.members.clear()  # type: ignore[attr-defined]  # it would grow with the archive
        if content is not None:
            yield _named(path, member.name, member.size, content.read, max_bytes, sequential=True)
        elif not member.isdir():
            refused = refused_item(path, "a link or device in an archive is not followed")
            yield _named(path, member.name, 0, refused.read)
    yield refused_item(path, f"the archive has more than {MAX_MEMBERS:,} members; the others are not read")


class _LimitedTarInfo(tarfile.TarInfo):
    """Reads headers; those that are damaged, too large or too many are an error and not the end."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _LimitedTarInfo:
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(str(error)) from None

    def _proc_member(self, tarfile_: tarfile.TarFile) -> Any:
        if self.type in _EXTENDED_HEADERS and self.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes, more than {MAX_HEADER:,}")
        shared = sum(len(key) + len(value) for key, value in tarfile_.pax_headers.items())
        if shared > MAX_HEADER:  # those for all members, which only grow
            raise tarfile.ReadError(f"headers for all members of more than {MAX_HEADER:,} bytes")
        return super()._proc_member(tarfile_)  # type: ignore[misc]

    def _refuse_holes(self, *_: object) -> Any:
        raise tarfile.ReadError("a file with holes, of which no map is read")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_holes


class _Inflater:
    """Decompresses gzip in the way of the decompressors of bz2 and lzma."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def decompress(self, data: bytes, max_length: int = 0) -> bytes:
        return self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def needs_input(self) -> bool:
        return not self._inflater.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data


def _decompressor_for(start: bytes) -> Callable[[], Any] | None:
    if start.startswith(b"\x1f\x8b\x08"):
        return _Inflater
    if start.startswith(b"BZh"):
        return bz2.BZ2Decompressor
    if start.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
        return lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
    return None


class _Unpacked:
    """The bytes of a tar archive, decompressed in small parts, as tarfile reads a stream.

    tarfile's own decompression makes all of a part's bytes at once, which may be gigabytes, and takes an
    archive that has ended for one that is still to come.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.watch = _Watch()
        self._file, self._left = file, MAX_RATIO * size + MAX_BYTES
        self._input = file.read(_PART)
        self._make = _decompressor_for(self._input)
        self._decompressor: Any = None if self._make is None else self._make()
        self._ended = False

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; nothing at the end, and an error beyond it."""
        if self._ended:
            raise tarfile.ReadError("it ends within a member")
        part = self._plain(size) if self._make is None else self._decompressed(size)
        self._left -= len(part)
        if self._left < 0:
            raise tarfile.ReadError(_too_much())
        self.watch.look()
        self._ended = not part
        return part

    def _plain(self, size: int) -> bytes:
        part, self._input = self._input[:size], self._input[size:]
        return part or self._file.read(size)

    def _decompressed(self, size: int) -> bytes:
        assert self._make is not None
        while True:
            if self._decompressor.eof:  # the next of several streams in one file
                self._input = self._decompressor.unused_data or self._file.read(_PART)
                if not self._input.strip(b"\0"):
                    return b""
                self._decompressor = self._make()
            elif self._decompressor.needs_input and not self._input:
                self._input = self._file.read(_PART)
                if not self._input:
                    raise EOFError("the compressed data ends too early")
            given, self._input = self._input, b""
            if part := self._decompressor.decompress(given, size):
                return part


class _Watch:
    """The processor time that is spent on one member."""

    def __init__(self) -> None:
        self._begin = time.thread_time()

    def look(self) -> None:
        """Raise TarError if it is too much."""
        if time.thread_time() - self._begin > MAX_SECONDS:
            raise tarfile.ReadError(f"unpacking took more than {MAX_SECONDS:g} seconds")


def _named(
    path: str,
    name: str,
    size: int,
    read: Callable[[int], bytes],
    max_bytes: int = MAX_BYTES,
    *,
    sequential: bool = False,
) -> MemberItem:
    if len(name) > MAX_NAME:
        return refused_item(f"{path}/{name[:80]}...", f"a name of {len(name):,} characters in an archive")
    return MemberItem(f"{path}/{name}", size, read, max_bytes, sequential)


def refused_item(name: str, reason: str) -> MemberItem:
    """An item that cannot be read, and why."""

    def read(limit: int) -> bytes:
        raise UnreadableImage("archive", reason)

    return MemberItem(name, 0, read)


def _too_much() -> str:
    return f"it unpacks to more than {MAX_RATIO} times its size; what comes now is not read"
