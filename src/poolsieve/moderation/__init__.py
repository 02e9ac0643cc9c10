"""Moderation: from a source of images to verdicts, their files and reports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poolsieve.moderation.chunk_judge import ChunkJudge
    from poolsieve.moderation.chunk_pixels import PreparedImage
    from poolsieve.moderation.moderator import Moderator, Run, Totals
    from poolsieve.moderation.stream import Stream
    from poolsieve.moderation.verdicts import PoolReading, Verdict

_PLACES = {
    "ChunkJudge": "chunk_judge",
    "Moderator": "moderator",
    "PoolReading": "verdicts",
    "PreparedImage": "chunk_pixels",
    "Run": "moderator",
    "Stream": "stream",
    "Totals": "moderator",
    "Verdict": "verdicts",
}
__all__ = [
    "ChunkJudge",
    "Moderator",
    "PoolReading",
    "PreparedImage",
    "Run",
    "Stream",
    "Totals",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    # Who reads a finished table needs no engine.
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
