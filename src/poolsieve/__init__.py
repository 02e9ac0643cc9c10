"""Pooled image moderation: test many images at once, find the few bad ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolsieve._version import __version__

if TYPE_CHECKING:
    from poolsieve.moderation import Moderator

__all__ = ["Moderator", "__version__"]


def __getattr__(name: str) -> Any:
    # Moderating needs engines and images; designs and decoders must import without them.
    if name == "Moderator":
        from poolsieve.moderation import Moderator

        return Moderator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
