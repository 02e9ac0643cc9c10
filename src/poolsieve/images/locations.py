"""Files and folders on disk or in an object store (`s3://`, `gs://`, `az://`), by one name for all.

Stores are read and written by pyarrow, which finds credentials in the environment, the usual files, or the
machine's role; a name that carries a key is refused, as names are logged. `store_listings` lists folders.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, cast

from poolsieve.files import write_atomically
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes, read_limited
from poolsieve.images.store_listings import ATTEMPTS, VERSIONS, AzureAccount, StoredFile, list_stored

_PATIENCE = timedelta(seconds=60)
"""How long Google's store is asked again before a failure counts; pyarrow's own is a quarter of an hour."""
_BUFFER = 4 << 20
"""Bytes of one request where a large file is read in parts."""
_REMOTE = re.compile(r"(s3|gs|az)://([^/]*)(?:/(.*))?", re.S)
_HELP = (
    "; credentials come from the environment and the usual files, another server than the maker's own from "
    "AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST or AZURE_STORAGE_ENDPOINT"
)


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Whether a name is of an object store."""
    return _REMOTE.match(os.fspath(name)) is not None


@dataclass(frozen=True)
class Location:
    """A file or folder, on disk or in an object store."""

    name: str  # a path, or `s3://bucket/key` and the like

    @property
    def remote(self) -> bool:
        """Whether it is in an object store."""
        return is_remote(self.name)

    def __truediv__(self, part: str) -> Location:
        if self.remote:
            return Location(f"{self.name.rstrip('/')}/{part}")
        return Location(str(Path(self.name) / part))

    def __str__(self) -> str:
        return self.name

    def kind(self) -> Literal["file", "folder"] | None:
        """What it is; None if it does not exist. OSError if the store does not say."""
        if not self.remote:
            path = Path(self.name)
            return "folder" if path.is_dir() else "file" if path.exists() else None
        store, path_there = _open(self.name)
        try:
            kind = store.get_file_info([path_there])[0].type.name
        except OSError as error:
            raise OSError(f"{self} cannot be looked at ({error}){_HELP}") from None
        if kind == "NotFound" and self.name.startswith("az:"):
            # pyarrow asks for one name that begins so, and up-2/ comes before up/.
            kind = "NotFound" if next(self.files(), None) is None else "Directory"
        return {"File": "file", "Directory": "folder"}.get(kind)  # type: ignore[return-value]

    def read_bytes(self, max_bytes: int = MAX_BYTES, version: str | None = None) -> bytes:
        """Its content.

        Args:
            max_bytes: Larger files are not read.
            version: The ETag or generation that it must have.

        Raises:
            UnreadableImage: It is larger, or has changed since it was listed.
            OSError: It cannot be read.
        """
        if not self.remote:
            return read_limited(self.name, max_bytes)
        with self.open() as stream:
            found = cast(Any, stream).metadata().get(VERSIONS[_split(self.name)[0]], b"").decode()
            if version is not None and found != version:
                raise UnreadableImage(self.name, "it has changed since it was listed")
            size = cast(Any, stream).size()
            check_bytes(self.name, size, max_bytes)
            return stream.read(size)

    def open(self) -> IO[bytes]:
        """A stream from which any part can be read; in a store, every reading is a request."""
        if not self.remote:
            return Path(self.name).open("rb")
        store, path = _open(self.name)
        return cast(IO[bytes], store.open_input_file(path))

    def open_from_start(self) -> tuple[IO[bytes], int]:
        """A buffered stream to be read from its start to its end, and its size."""
        if not self.remote:
            return Path(self.name).open("rb"), Path(self.name).stat().st_size
        store, path = _open(self.name)
        stream = store.open_input_stream(path, compression=None, buffer_size=_BUFFER)
        return cast(IO[bytes], stream), store.get_file_info([path])[0].size

    def write_bytes(self, data: bytes) -> None:
        """Write a file, which appears whole or not at all: stores show an object when all of it has come."""
        if not self.remote:
            write_atomically(self.name, data)
            return
        store, path = _open(self.name)
        with store.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def remove(self) -> None:
        """Remove a file, or a folder with all in it, if it is there."""
        kind = self.kind()
        if not self.remote:
            if kind == "folder":
                shutil.rmtree(self.name)
            elif kind == "file":
                Path(self.name).unlink()
        elif kind is not None:
            store, path = _open(self.name)
            with suppress(FileNotFoundError):  # Google's has no folder any more once its files are removed
                (store.delete_dir if kind == "folder" else store.delete_file)(path)

    def names(self) -> list[str]:
        """Names of the files that lie directly in it, sorted; none if there is no such folder."""
        if not self.remote:
            folder = Path(self.name)
            return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return sorted(file.name.rpartition("/")[2] for file in self.files(below=False))

    def files(self, *, below: bool = True) -> Iterator[StoredFile]:
        """The files of a folder in a store by key, one at a time; a page of them is held.

        Args:
            below: With those of all folders below it.

        Raises:
            OSError: The store does not list it.
        """
        try:
            yield from list_stored(*_split(self.name), below)
        except OSError as error:
            raise OSError(f"{self} cannot be listed ({error}){_HELP}") from None


def _split(name: str) -> tuple[str, str, str]:
    """Store, bucket or container, and key without a slash at its end."""
    found = _REMOTE.fullmatch(name)
    assert found is not None, name
    scheme, bucket, key = found[1], found[2], found[3] or ""
    if "@" in bucket or ":" in bucket:
        raise ValueError(f"a name such as {scheme}://key:secret@bucket carries a secret; leave it out{_HELP}")
    if not bucket:
        raise ValueError(f"{name!r} names no bucket; write {scheme}://bucket/folder")
    return scheme, bucket, key.rstrip("/")


def _open(name: str) -> tuple[Any, str]:
    """The store as pyarrow opens it, and the path there."""
    scheme, bucket, key = _split(name)
    return _store(scheme, bucket, os.getpid()), f"{bucket}/{key}" if key else bucket


@lru_cache(maxsize=32)
def _store(scheme: str, bucket: str, process: int) -> Any:
    # By process, as connections do not survive a fork.
    try:
        from pyarrow import fs
    except ImportError:
        raise ImportError(f"{scheme}:// needs pyarrow: pip install 'poolsieve[moderate]'") from None
    try:
        if scheme == "s3":
            return fs.S3FileSystem(
                region=_region(bucket),
                endpoint_override=_endpoint(),
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
            )
        if scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=_PATIENCE, **_gs_server())
        account = AzureAccount.from_environment()
        return fs.AzureFileSystem(account.name, **account.options())
    except (AttributeError, ImportError):
        raise ImportError(f"this build of pyarrow has no {scheme}://; install the one of PyPI") from None


def _endpoint() -> str | None:
    """Where S3 is served if not by Amazon, as boto3 takes it too."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _gs_server() -> dict[str, Any]:
    """Where Google's store is served if not by Google, as its own client takes it too; without a login."""
    scheme, _, server = os.environ.get("STORAGE_EMULATOR_HOST", "").rpartition("://")
    return {"endpoint_override": server, "scheme": scheme or "http", "anonymous": True} if server else {}


def _region(bucket: str) -> str | None:
    """The region that is set, or that of the bucket; None where the endpoint is one's own."""
    from pyarrow import fs

    told = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if told or _endpoint():
        return told
    try:
        return cast(str, fs.resolve_s3_region(bucket))
    except OSError:
        return None
