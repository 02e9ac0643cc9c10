"""The folder of a run in parts, on disk or in an object store.

`run.json` says what run it is, `listing/` which images it judges, a file for each segment of chunks, `parts/`
what was decided, a Parquet file for each segment; `_SUCCESS` is there when all is. What stands in the listing
is never changed, and a part appears whole or not at all, so a run that was killed goes on from what is there.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from poolsieve.distributed.listing import ListedImage, ListedItems, read_listed, write_listed
from poolsieve.files import import_parquet
from poolsieve.images.locations import Location
from poolsieve.images.sources import Item
from poolsieve.moderation.verdict_files import parquet_verdicts, write_parquet
from poolsieve.moderation.verdicts import Verdict

FORMAT = 1
SUCCESS = "_SUCCESS"
_SETTINGS, _LISTING, _PARTS = "run.json", "listing", "parts"
_STATE = b"poolsieve"
_LARGEST = 1 << 40
_COUNTED = 8
"""Digits of a segment's number in names of files, so that they sort."""


@dataclass(frozen=True)
class RunSettings:
    """What run it is; the same settings and listing give the same table.

    Attributes:
        source: Sources as they were given.
        column: Column of the paths in tables.
        bundle: The bundle as it was named.
        bundle_hash: Its hash.
        scheme: What decides, with its parameters; or all plans that may be followed.
        options: Of the moderator: those of the scheme, frames and precision.
        plans: The plans, for ascending prevalences; none if the scheme was given.
        seed: Decides who shares a pool with whom.
        chunk: Images that are decided together.
        segment: Chunks of a part.
        since: The earlier run whose images are not judged again.
    """

    source: tuple[str, ...]
    column: str | None
    bundle: str
    bundle_hash: str
    scheme: str
    options: Mapping[str, Any]
    plans: tuple[Mapping[str, Any], ...]
    seed: int
    chunk: int
    segment: int
    since: str | None = None

    @property
    def images(self) -> int:
        """Images of a whole segment."""
        return self.chunk * self.segment

    def to_json(self) -> bytes:
        """As `run.json` holds it."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n").encode()

    @classmethod
    def from_json(cls, data: bytes) -> RunSettings:
        """The reverse of `to_json`.

        Raises:
            ValueError: It is something else.
        """
        try:
            values = json.loads(data)
            if values.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            made = cls(**values)
            return replace(made, source=tuple(made.source), plans=tuple(made.plans))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the {_SETTINGS} of a run ({error})") from None


class RunFolder:
    """A run's folder.

    Args:
        name: A folder, or `s3://bucket/run-1` and the like.

    Attributes:
        location: Where it is.
    """

    def __init__(self, name: str) -> None:
        self.location = Location(name)

    def __str__(self) -> str:
        return str(self.location)

    def settings(self) -> RunSettings | None:
        """What run it is; None if there is none.

        Raises:
            ValueError: The folder holds something else.
        """
        file = self.location / _SETTINGS
        if file.kind() is None:
            if self.location.kind() == "file":
                raise ValueError(f"{self} is a file; a run in parts is written to a folder")
            others = [name for name in self.location.names() if name != "lock"]
            if others:
                raise ValueError(f"{self} holds {others[0]} and is no run; name a new or an empty folder")
            return None
        try:
            return RunSettings.from_json(file.read_bytes())
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    def needed_settings(self) -> RunSettings:
        """What run it is.

        Raises:
            ValueError: There is none.
        """
        settings = self.settings()
        if settings is None:
            raise ValueError(
                f"{self} is no run: it has no {_SETTINGS}. A run is made by: poolsieve moderate photos/ "
                f"--on local --out {self}"
            )
        return settings

    def begin(self, settings: RunSettings) -> None:
        """Say what run it is."""
        (self.location / _SETTINGS).write_bytes(settings.to_json())

    @property
    def finished(self) -> bool:
        """Whether all is judged."""
        return (self.location / SUCCESS).kind() is not None

    def finish(self) -> None:
        """Say that all is judged."""
        (self.location / SUCCESS).write_bytes(b"")

    def clear(self) -> None:
        """Remove the run, and nothing else."""
        for name in (SUCCESS, _PARTS, _LISTING, _SETTINGS):  # the settings last: until then it is a run
            (self.location / name).remove()

    def listed(self) -> list[int]:
        """Segments whose images are listed."""
        return _numbers(self.location / _LISTING)

    @property
    def listing_ended(self) -> bool:
        """Whether the listing is whole."""
        return (self.location / _LISTING / SUCCESS).kind() is not None

    def end_listing(self) -> None:
        """Say that the listing is whole."""
        (self.location / _LISTING / SUCCESS).write_bytes(b"")

    def write_listing(self, segment: int, images: Sequence[ListedImage]) -> None:
        """Put on record which images a segment holds."""
        self._file(_LISTING, segment).write_bytes(write_listed(images))

    def read_listing(self, segment: int) -> list[ListedImage]:
        """The images of a segment."""
        return read_listed(self._file(_LISTING, segment).read_bytes(_LARGEST))

    def parts(self) -> list[int]:
        """Segments that are judged."""
        return _numbers(self.location / _PARTS)

    def write_part(self, segment: int, verdicts: Sequence[Verdict], state: Mapping[str, Any]) -> None:
        """Write the verdicts of a segment and what was learnt from it."""
        stream = io.BytesIO()
        write_parquet(verdicts, stream, metadata={_STATE: json.dumps(state).encode()})
        self._file(_PARTS, segment).write_bytes(stream.getvalue())

    def has_part(self, segment: int) -> bool:
        """Whether a segment is judged."""
        return self._file(_PARTS, segment).kind() is not None

    def state(self, segment: int) -> dict[str, Any]:
        """What was learnt from a segment; only the end of its part is read."""
        _, parquet = import_parquet()
        with self._file(_PARTS, segment).open() as stream:
            found: dict[str, Any] = json.loads(parquet.read_metadata(stream).metadata[_STATE])
        return found

    def verdicts(self) -> Iterator[Verdict]:
        """All verdicts so far in the order of the listing, one at a time."""
        for segment in self.parts():
            with self._file(_PARTS, segment).open() as stream:
                yield from parquet_verdicts(stream, str(self._file(_PARTS, segment)))

    def items(self) -> Iterator[Item]:
        """What is listed so far, in order, each to be loaded before the next if it says so."""
        return ListedItems().items(image for segment in self.listed() for image in self.read_listing(segment))

    def digest(self) -> str:
        """A hash of what run it is and of all verdicts so far."""
        found = hashlib.sha256((self.location / _SETTINGS).read_bytes())
        for segment in self.parts():
            found.update(hashlib.sha256(self._file(_PARTS, segment).read_bytes(_LARGEST)).digest())
        return found.hexdigest()

    def _file(self, kind: str, segment: int) -> Location:
        return self.location / kind / f"{segment:0{_COUNTED}d}.parquet"


def run_verdicts(run: str) -> Iterator[Verdict]:
    """The verdicts of a run in parts, finished or not, in the order of its listing.

    Args:
        run: Its folder, also in an object store.

    Raises:
        ValueError: It is no run.
    """
    folder = RunFolder(run)
    folder.needed_settings()
    return folder.verdicts()


def _numbers(folder: Location) -> list[int]:
    return sorted(int(name.partition(".")[0]) for name in folder.names() if name[:1].isdigit())
