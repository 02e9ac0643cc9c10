"""Which files of a folder poolsieve wrote itself, so that no run judges what an earlier one made.

Results are noted in a file beside them, with size and time of change: what was replaced since is no result of
ours any more. The notes are signed with a key that lies in the user's own folder. Names in a source come from
strangers, and none of them shall have images passed over by bringing such a file along; where the key is
missing or another one, everything is judged.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from poolsieve.files import write_atomically
from poolsieve.images.locations import is_remote
from poolsieve.images.reading import read_limited
from poolsieve.images.store_listings import StoredFile

NOTES = ".poolsieve-outputs"
"""File beside results that names them."""
_KINDS = ("results", "copies")
_KEY_BYTES = 32
_MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class OutputNotes:
    """The results in one folder: names with size and time of change."""

    results: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # tables, pages and sheets
    copies: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # copies of flagged images

    def unchanged(self, folder: str | os.PathLike[str], *, copies: bool) -> set[str]:
        """Names of results, or of copies, that are as they were written."""
        noted = self.copies if copies else self.results
        return {name for name, was in noted.items() if _state(Path(folder) / name) == was}


def read_notes(folder: str | os.PathLike[str], *, unsigned: bool = False) -> OutputNotes | None:
    """The notes on a folder; None if there are none, or none that are signed by this user for this folder.

    With `unsigned`, others are taken too: they may be anybody's.
    """
    try:
        told, _, text = read_limited(Path(folder) / NOTES, _MOST_BYTES).partition(b"\n")
        key = _key(make=False)
        signed = key is not None and hmac.compare_digest(told, _signature(key, folder, text))
        if not signed and not unsigned:
            return None  # unread: what strangers wrote is not even parsed
        values = json.loads(text)
        files = {kind: {str(n): (int(a), int(b)) for n, (a, b) in values[kind].items()} for kind in _KINDS}
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    if any(Path(name).name != name for names in files.values() for name in names):
        return None
    return OutputNotes(files["results"], files["copies"])


def note_outputs(
    folder: str | os.PathLike[str], *, results: Iterable[str] = (), copies: Iterable[str] = ()
) -> None:
    """Note files in a folder as results of ours, beside those that are noted already.

    Where there is no place for the key, later runs know the folder's copies but judge everything.
    """
    key = _key(make=True)
    earlier = read_notes(folder, unsigned=key is None) or OutputNotes()
    files: dict[str, dict[str, tuple[int, int]]] = {}
    for kind, known, new in (("results", earlier.results, results), ("copies", earlier.copies, copies)):
        states = {name: _state(Path(folder) / name) for name in {*known, *new}}
        fresh = set(new)
        files[kind] = {n: s for n, s in sorted(states.items()) if s and (n in fresh or s == known[n])}
    text = json.dumps(files).encode()
    signature = b"unsigned" if key is None else _signature(key, folder, text)
    write_atomically(Path(folder) / NOTES, signature + b"\n" + text)


class OwnOutputs:
    """Leaves out of listings what poolsieve wrote.

    Args:
        of_this_run: Files and folders that the present run writes, finished or not.

    Attributes:
        passed_over: Number of files left out because an earlier run wrote them, by folder.
    """

    def __init__(self, of_this_run: Iterable[str | os.PathLike[str]] = ()) -> None:
        names = [os.fspath(path) for path in of_this_run]
        self._of_this_run = {os.path.realpath(name) for name in names if not is_remote(name)}
        self._stored = tuple(f"{name.rstrip('/')}/" for name in names if is_remote(name))
        self.passed_over: dict[str, int] = {}

    def leave_out(self, source: str, paths: Iterable[str]) -> Iterator[str]:
        """The files below a folder without our own; those of a folder must come together.

        Copies that lie in the folder itself, which was named as a source, are wanted.
        """
        folder, skipped, own = None, False, set[str]()
        for path in paths:
            parent, _, name = path.rpartition(os.sep)
            if parent != folder:
                folder = parent
                skipped, own = self._own_files(parent or os.sep, is_source=parent == source.rstrip(os.sep))
            if not skipped and name not in own:
                yield path

    def leave_out_stored(self, files: Iterable[StoredFile]) -> Iterator[StoredFile]:
        """The files of an object store without the present run's."""
        return (file for file in files if not file.name.startswith(self._stored))

    def _own_files(self, folder: str, *, is_source: bool) -> tuple[bool, set[str]]:
        """Whether all of a folder is the present run's, and the names of our files in it."""
        real = Path(os.path.realpath(folder))
        if self._of_this_run.intersection(map(str, (real, *real.parents))):
            return True, set()
        own = {Path(path).name for path in self._of_this_run if Path(path).parent == real}
        notes = read_notes(folder)
        if notes is not None:
            noted = notes.unchanged(folder, copies=False)
            if not is_source:
                noted |= notes.unchanged(folder, copies=True)
            if noted - own:
                self.passed_over[folder] = len(noted - own)
            own |= noted | {NOTES}
        return False, own


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _signature(key: bytes, folder: str | os.PathLike[str], text: bytes) -> bytes:
    place = os.fsencode(os.path.realpath(folder))
    return hmac.new(key, place + b"\0" + text, hashlib.sha256).hexdigest().encode()


def _key(*, make: bool) -> bytes | None:
    """The user's key; None if there is none, or none can be made."""
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody's home
        state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        path = Path(state) / "poolsieve" / "outputs.key"
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # another run was quicker
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
        return key if len(key) == _KEY_BYTES else None
    return None
