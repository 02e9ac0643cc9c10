"""Copies of flagged images in a folder for review, which holds those of the last run only."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from poolsieve.files import check_writable, shorten_name, write_atomically, written_as
from poolsieve.images.own_outputs import NOTES, note_outputs, read_notes
from poolsieve.images.sources import Item

_NAME_BYTES = 160
_COPY = re.compile(r"\d{7,}_")


def check_copy_folder(folder: Path, sources: Iterable[str]) -> None:
    """Raise at once, before long work, if copies cannot go there without harm to other files."""
    check_writable(folder / "image")
    real = folder.resolve()
    for source in sources:
        if real in (place := Path(source).resolve(), *place.parents):
            raise ValueError(f"{source} lies in {folder}, where copies shall go; choose another folder")
    left = set(_left_behind(folder))
    others = set(folder.iterdir()) - left if folder.is_dir() else set()
    if others and read_notes(folder, unsigned=True) is None:
        raise ValueError(
            f"{folder} is not empty and was not made by --copy-flagged; choose a new or an empty folder"
        )


def _left_behind(folder: Path) -> Iterator[Path]:
    """Temporary files of copies and notes, which runs that were killed leave."""
    for path in folder.iterdir() if folder.is_dir() else ():
        name = written_as(path.name)
        if name is not None and (name == NOTES or _COPY.match(name)):
            yield path


def copy_images(items: Iterable[tuple[int, Item]], folder: Path) -> tuple[int, list[str]]:
    """Copy images, unchanged, as `position_name` into a folder, in place of an earlier run's copies.

    Names come from strangers, so nothing of them but letters, digits, points and dashes of their last part
    is kept. Files that are no copies of ours, or were changed since, stay; what a killed run left half
    written goes.

    Returns:
        Number of copies, and a line for each image that could not be read again.
    """
    failures: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    earlier = read_notes(folder, unsigned=True)
    stale = earlier.unchanged(folder, copies=True) if earlier is not None else set()
    for path in list(_left_behind(folder)):
        path.unlink(missing_ok=True)
    note_outputs(folder)  # at once, so that the folder is known as ours if this run is killed
    copied: set[str] = set()
    for position, item in items:
        try:
            content = item.load()
        except (OSError, ValueError) as error:
            failures.append(f"{item.name} was not copied: {error}")
            continue
        name = f"{position:07d}_{_harmless(item.name)}"
        if isinstance(content, Image.Image):
            name, content = f"{name}.png", _as_png(content)
        write_atomically(folder / name, content)
        copied.add(name)
    for name in stale - copied:
        if _COPY.match(name):
            (folder / name).unlink(missing_ok=True)
    note_outputs(folder, copies=copied)
    return len(copied), failures


def _harmless(name: str) -> str:
    return shorten_name(re.sub(r"[^\w.-]", "_", name.rsplit("/", 1)[-1]), _NAME_BYTES)


def _as_png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format="png")
    return stream.getvalue()
