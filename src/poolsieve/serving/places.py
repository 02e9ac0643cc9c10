"""Files that requests may name: below folders, on disk or in object stores, that the operator has named."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poolsieve.images.locations import Location, is_remote
from poolsieve.images.reading import MAX_BYTES, UnreadableImage
from poolsieve.serving.errors import Refused

_MAX_PATH = 4096
_STORED_FOLDER = re.compile(r"\w+://[^/@:]+/(.*/)?", re.S)
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


class Prefixes:
    """Folders below which files may be read.

    Args:
        folders: On disk, where they must exist, or `s3://bucket/folder` (`gs://`, `az://`).

    Raises:
        ValueError: One is no folder.
    """

    def __init__(self, folders: Sequence[str | os.PathLike[str]] = ()) -> None:
        names = [os.fspath(folder) for folder in folders]
        self._stored = [name.rstrip("/") + "/" for name in names if is_remote(name)]
        self._folders = [Path(os.path.realpath(name)) for name in names if not is_remote(name)]
        for name in self._stored:
            if not _STORED_FOLDER.fullmatch(name) or not _is_plain(name.rstrip("/")):
                raise ValueError(f"{name} is no folder of a store; write s3://bucket/folder")
        for folder in self._folders:
            if not folder.is_dir():
                raise ValueError(f"{folder} is no folder; a prefix for manifests must be one")

    def resolve(self, text: str) -> Location:
        """The file that a path names, links on disk followed; relative ones count from the first folder.

        Keys of stores are taken literally, as stores do.

        Raises:
            Refused: It lies elsewhere.
        """
        if not self._folders and not self._stored:
            raise Refused(422, "forbidden_path", "manifests are not enabled here; send an archive")
        shown = repr(text[:80])
        if not text or len(text) > _MAX_PATH or "\0" in text:
            raise Refused(422, "forbidden_path", f"{shown} is no path")
        elsewhere = Refused(422, "forbidden_path", f"{shown} does not lie below a folder that is served")
        if _SCHEME.match(text):
            if not _is_plain(text) or not text.startswith(tuple(self._stored)):
                raise elsewhere
            return Location(text)
        if not self._folders:
            raise elsewhere
        try:
            place = Path(os.path.realpath(self._folders[0] / text))
        except (OSError, ValueError):
            raise Refused(422, "forbidden_path", f"{shown} is no path") from None
        if not any(place.is_relative_to(folder) for folder in self._folders):
            raise elsewhere
        return Location(str(place))


def _is_plain(name: str) -> bool:
    """Whether a name in a store has no parts that a client or a proxy on the way might take for a way up."""
    parts = name.split("://", 1)[1].split("/")
    return all(part.strip(" .") and part.isprintable() for part in parts) and not set("\\%?#") & set(name)


@dataclass(frozen=True)
class ServedFile:
    """A file below a prefix, which is checked again when it is read."""

    name: str
    path: str
    prefixes: Prefixes
    sequential: bool = False

    def load(self) -> bytes:
        """Its bytes; raises OSError or UnreadableImage."""
        try:
            place = self.prefixes.resolve(self.path)
        except Refused as error:  # a link was changed since the job was made
            raise UnreadableImage(self.name, error.message) from None
        return place.read_bytes(MAX_BYTES)
