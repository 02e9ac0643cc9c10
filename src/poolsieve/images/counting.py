"""How many items a source will list, without reading them and without holding their names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from poolsieve.images.image_files import TAR_ENDINGS
from poolsieve.images.locations import is_remote
from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.sources import LITTER, STANDARD_INPUT, list_items


def count_items(sources: Iterable[str], *, column: str | None, outputs: OwnOutputs) -> int | None:
    """Number of items in several sources, as on the command line; None if that takes more than a little.

    Raises as `list_items` does, which tells of the other arguments.
    """
    total = 0
    for source in sources:
        if Path(source).is_dir():
            total += sum(1 for _ in outputs.leave_out(source, _unsorted(source)))
        elif source == STANDARD_INPUT or source.lower().endswith(TAR_ENDINGS) or is_remote(source):
            return None  # to count the members of a tar is to read it whole
        else:
            total += sum(1 for _ in list_items([source], column=column))
    return total


def _unsorted(folder: str) -> Iterator[str]:
    """All that a listing of the folder has, in any order, those of a folder together."""
    waiting = [folder]
    while waiting:
        present = waiting.pop()
        try:
            entries = os.scandir(present)
        except OSError:
            yield present  # as the listing does
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.name not in LITTER and not (entry.is_symlink() and entry.is_dir()):
                    yield entry.path
