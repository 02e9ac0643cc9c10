"""Files on the server that requests may name: those below folders that the operator has named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poolsieve.images.reading import MAX_BYTES, UnreadableImage, read_limited
from poolsieve.serving.errors import Refused

_MAX_PATH = 4096


class Prefixes:
    """Folders below which files may be read.

    Args:
        folders: They must exist.

    Raises:
        ValueError: One is no folder.
    """

    def __init__(self, folders: Sequence[str | os.PathLike[str]] = ()) -> None:
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]
        for folder in self._folders:
            if not folder.is_dir():
                raise ValueError(f"{folder} is no folder; a prefix for manifests must be one")

    def resolve(self, text: str) -> Path:
        """The file that a path names, all links followed; relative paths count from the first folder.

        Raises:
            Refused: It lies elsewhere.
        """
        if not self._folders:
            raise Refused(422, "forbidden_path", "manifests are not enabled here; send an archive")
        shown = repr(text[:80])
        if not text or len(text) > _MAX_PATH or "\0" in text:
            raise Refused(422, "forbidden_path", f"{shown} is no path")
        try:
            place = Path(os.path.realpath(self._folders[0] / text))
        except (OSError, ValueError):
            raise Refused(422, "forbidden_path", f"{shown} is no path") from None
        if not any(place.is_relative_to(folder) for folder in self._folders):
            raise Refused(422, "forbidden_path", f"{shown} does not lie below a folder that is served")
        return place


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
        return read_limited(place, MAX_BYTES)
