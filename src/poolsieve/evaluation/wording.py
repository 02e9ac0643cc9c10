"""What a report calls the images that are to be flagged, and the others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """Words of a report.

    Attributes:
        bad: Images that are to be flagged.
        ordinary: The others.
    """

    bad: str = "bad"
    ordinary: str = "ordinary"


OFF_TOPIC = Wording("off-topic", "on-topic")
