"""Moderation: from a source of images to verdicts, their files and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolsieve.late_names import late_names

if TYPE_CHECKING:
    from poolsieve.moderation.chunk_judge import ChunkJudge
    from poolsieve.moderation.chunk_pixels import PreparedImage
    from poolsieve.moderation.moderator import Moderator, Run, Totals
    from poolsieve.moderation.shown_pools import pools_page
    from poolsieve.moderation.stream import Stream
    from poolsieve.moderation.verdict_files import read_verdicts, write_verdicts
    from poolsieve.moderation.verdicts import PoolReading, Verdict

__all__ = [
    "ChunkJudge",
    "Moderator",
    "PoolReading",
    "PreparedImage",
    "Run",
    "Stream",
    "Totals",
    "Verdict",
    "pools_page",
    "read_verdicts",
    "write_verdicts",
]

# Who reads a finished table needs no engine.
__getattr__, __dir__ = late_names(
    __name__,
    {
        "ChunkJudge": "chunk_judge",
        "Moderator": "moderator",
        "PoolReading": "verdicts",
        "PreparedImage": "chunk_pixels",
        "Run": "moderator",
        "Stream": "stream",
        "Totals": "moderator",
        "Verdict": "verdicts",
        "pools_page": "shown_pools",
        "read_verdicts": "verdict_files",
        "write_verdicts": "verdict_files",
    },
)
