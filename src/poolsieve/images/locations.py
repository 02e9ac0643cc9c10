"""Files and folders on disk or in an object store (`s3://`, `gs://`, `az://`), by one name for all.

Stores are read and written by pyarrow, which finds credentials in the environment, the usual files, or the
machine's role; a name that carries a key is refused, as names are logged. pyarrow lists a folder as a whole,
so the keys of S3 are listed page by page by boto3, with their ETags.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, cast

from poolsieve.files import write_atomically
from poolsieve.images.reading import MAX_BYTES, UnreadableImage, check_bytes, read_limited

STORES = ("s3", "gs", "az")
ATTEMPTS = 5
"""Times that a request is made before its failure counts."""
_BUFFER = 4 << 20
"""Bytes of one request where a large file is read in parts."""
_REMOTE = re.compile(r"(s3|gs|az)://([^/]*)(?:/(.*))?", re.S)
_HELP = "; credentials come from the environment and the usual files, S3's endpoint from AWS_ENDPOINT_URL"


@dataclass(frozen=True)
class StoredFile:
    """A file in an object store, as it was listed.

    Attributes:
        name: With the store: `s3://bucket/key`.
        size: Bytes.
        version: The ETag that it had; None where listings tell none.
    """

    name: str
    size: int
    version: str | None


def is_remote(name: str | os.PathLike[str]) -> bool:
    """Whether a name is of an object store."""
    return _REMOTE.match(os.fspath(name)) is not None


@dataclass(frozen=True)
class Location:
    """A file or folder, on disk or in an object store.

    Attributes:
        name: A path, or `s3://bucket/key` and the like.
    """

    name: str

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
        """What it is; None if it does not exist.

        Raises:
            OSError: The store does not say.
        """
        if not self.remote:
            path = Path(self.name)
            return "folder" if path.is_dir() else "file" if path.exists() else None
        store, path_there = _open(self.name)
        try:
            kind = store.get_file_info([path_there])[0].type.name
        except OSError as error:
            raise OSError(f"{self} cannot be looked at ({error}){_HELP}") from None
        return {"File": "file", "Directory": "folder"}.get(kind)  # type: ignore[return-value]

    def read_bytes(self, max_bytes: int = MAX_BYTES, version: str | None = None) -> bytes:
        """Its content.

        Args:
            max_bytes: Larger files are not read.
            version: The ETag that it must have.

        Raises:
            UnreadableImage: It is larger, or has changed since it was listed.
            OSError: It cannot be read.
        """
        if not self.remote:
            return read_limited(self.name, max_bytes)
        with self.open() as stream:
            found = cast(Any, stream).metadata().get("ETag", b"").decode()
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
            (store.delete_dir if kind == "folder" else store.delete_file)(path)

    def names(self) -> list[str]:
        """Names of the files that lie directly in it, sorted; none if there is no such folder."""
        if not self.remote:
            folder = Path(self.name)
            return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return sorted(file.name.rpartition("/")[2] for file in self.files(below=False))

    def files(self, *, below: bool = True) -> Iterator[StoredFile]:
        """The files of a folder in a store by name, one at a time.

        Keys of S3 come page by page; elsewhere, names of one folder are held at a time.

        Args:
            below: With those of all folders below it.

        Raises:
            OSError: The store does not list it.
        """
        scheme, bucket, key = _split(self.name)
        listed = _s3_files(bucket, key, below) if scheme == "s3" else _walk(scheme, f"{bucket}/{key}", below)
        try:
            yield from listed
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
            return fs.GcsFileSystem()
        account = os.environ.get("AZURE_STORAGE_ACCOUNT")
        if not account:
            raise ValueError("az:// needs the storage account's name in AZURE_STORAGE_ACCOUNT")
        return fs.AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_KEY"))
    except (AttributeError, ImportError):
        raise ImportError(f"this build of pyarrow has no {scheme}://; install the one of PyPI") from None


def _endpoint() -> str | None:
    """Where S3 is served if not by Amazon, as boto3 takes it too."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


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


def _s3_files(bucket: str, key: str, below: bool) -> Iterator[StoredFile]:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ImportError("listing s3:// needs boto3: pip install 'poolsieve[s3]'") from None
    config = Config(retries={"mode": "standard", "max_attempts": ATTEMPTS})
    try:
        pages = boto3.client("s3", config=config).get_paginator("list_objects_v2")
        prefix = f"{key}/" if key else ""
        for page in pages.paginate(Bucket=bucket, Prefix=prefix, **({} if below else {"Delimiter": "/"})):
            for entry in page.get("Contents", ()):
                if not entry["Key"].endswith("/"):  # what some tools put in place of folders
                    yield StoredFile(f"s3://{bucket}/{entry['Key']}", entry["Size"], entry["ETag"])
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from None


def _walk(scheme: str, folder: str, below: bool) -> Iterator[StoredFile]:
    """Files by name as stores order them, which compare whole keys: a folder as if it ended in a slash."""
    from pyarrow import fs

    store, _ = _open(f"{scheme}://{folder}")
    folders = [folder.rstrip("/")]
    levels = [iter(_entries(store, fs, folders[0]))]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
        elif entry.type == fs.FileType.File:
            yield StoredFile(f"{scheme}://{entry.path}", entry.size, None)
        elif below:
            levels.append(iter(_entries(store, fs, entry.path)))


def _entries(store: Any, fs: Any, folder: str) -> list[Any]:
    found = store.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(found, key=lambda entry: f"{entry.path}{'/' * (entry.type != fs.FileType.File)}".encode())
