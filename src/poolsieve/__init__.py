"""Pooled image moderation: test many images at once, find the few bad ones.

What most programs need is here; `poolsieve.designs`, `poolsieve.decoders` and the other packages hold the
rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolsieve._version import __version__
from poolsieve.late_names import late_names

if TYPE_CHECKING:
    from poolsieve.bundles import list_bundles, load_bundle
    from poolsieve.moderation import Moderator, Verdict

__all__ = ["Moderator", "Verdict", "__version__", "list_bundles", "load_bundle"]

# Moderating needs engines and images; designs and decoders must import without them.
_PACKAGES = (
    *("bundles", "calibration", "decoders", "designs", "distributed", "engines", "evaluation", "export"),
    *("images", "moderation", "networks", "outliers", "planning", "review", "schemes", "serving"),
    *("statistics", "store", "training"),
)
__getattr__, __dir__ = late_names(
    __name__,
    {
        "Moderator": "moderation",
        "Verdict": "moderation",
        "list_bundles": "bundles",
        "load_bundle": "bundles",
        **{package: package for package in _PACKAGES},
    },
)
