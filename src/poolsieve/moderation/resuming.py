"""Whether a source still holds what was judged before a run was interrupted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from PIL import Image

from poolsieve.images.reading_ahead import read_ahead
from poolsieve.images.sources import Item, Loaded
from poolsieve.moderation.verdicts import Verdict

_THREADS = min(8, os.cpu_count() or 1)


def check_unchanged(verdicts: Iterable[Verdict], items: Iterable[Item]) -> None:
    """Raise if images that were judged have been replaced, removed or joined by others.

    All of them are read again: size and time of a file tell nothing for sure, and hashing is quick beside
    judging.

    Args:
        verdicts: Those of the earlier run, in order.
        items: What the source lists now, at least as many.

    Raises:
        ValueError: With the first image that differs.
    """
    found = read_ahead(items, _hashed, threads=_THREADS, ahead=4 * _THREADS)
    for verdict in verdicts:
        name, sha256 = next(found, (None, None))
        if name == verdict.path and sha256 == verdict.sha256:
            continue
        if name == verdict.path:
            what = f"{name} was replaced"
        elif name is None or not os.path.lexists(verdict.path):
            what = f"{verdict.path} was removed"
        else:
            what = f"{name} was added"
        raise ValueError(
            f"the source has changed since the run began: {what} (image {verdict.position}); start anew with "
            "--force"
        )


def _hashed(item: Item, data: Loaded) -> tuple[str, str | None]:
    try:
        content = item.load() if data is None else data
        if isinstance(content, Exception):
            return item.name, None
    except (OSError, ValueError):
        return item.name, None
    whole = content.tobytes() if isinstance(content, Image.Image) else content
    return item.name, hashlib.sha256(whole).hexdigest()
