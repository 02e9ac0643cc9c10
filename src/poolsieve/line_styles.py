"""How the line of each method looks, the same in every figure, whichever others are drawn beside it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from poolsieve.figures import COLOURS

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY = COLOURS
MARKERS = "osD^vP*Xp<>h"
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class LineStyle:
    """Colour, mark and dashes of a line; hollow marks belong to networks at half size."""

    colour: str  # one of `COLOURS`
    marker: str  # one of `MARKERS`
    dashes: str = "-"  # one of `DASHES`
    hollow: bool = False  # whether marks are hollow

    def settings(self, size: float = 5) -> dict[str, Any]:
        """As matplotlib takes them; `size` is that of the marks."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dashes,
            "markerfacecolor": "white" if self.hollow else self.colour,
            "markersize": size,
        }


STYLES = {
    "individual": LineStyle(BLACK, "o"),
    "dorfman": LineStyle(GREY, "s"),
    "individual-argmax": LineStyle(BLACK, "x", ":"),
    "dorfman-recompute": LineStyle(GREY, "s", "-.", hollow=True),
    "oneshot": LineStyle(BLUE, "P"),
    "comp": LineStyle(ORANGE, "v"),
    "ncomp": LineStyle(PURPLE, "v"),
    "dd": LineStyle(ORANGE, "<", ":"),
    "scomp": LineStyle(PURPLE, "<", ":"),
    "classo": LineStyle(VERMILION, "^"),
    "quantitative-threshold": LineStyle(VERMILION, ">", ":"),
    "mip": LineStyle(BLUE, "D"),
    "greedy-counts": LineStyle(BLUE, ">", ":"),
    "map": LineStyle(SKY, "h"),
    "map-hard": LineStyle(SKY, "h", "-.", hollow=True),
    "bp": LineStyle(GREEN, "o"),
    "bp-hard": LineStyle(GREEN, "X", "-."),
    "glance": LineStyle(SKY, "*"),
    "cascade": LineStyle(PURPLE, "P"),
    "early_exit": LineStyle(SKY, "P"),
    "rounds": LineStyle(ORANGE, "s"),
    "adaptive": LineStyle(VERMILION, "s"),
    "auto": LineStyle(ORANGE, "D"),
    "adaptive-planned": LineStyle(VERMILION, "s", "-.", hollow=True),
    "downsample": LineStyle(BLACK, "o", "--", hollow=True),
    "downsample-comp": LineStyle(ORANGE, "v", "--", hollow=True),
    "downsample-ncomp-2": LineStyle(PURPLE, "v", "--", hollow=True),
    "downsample-classo": LineStyle(VERMILION, "^", "--", hollow=True),
    "downsample-mip": LineStyle(BLUE, "D", "--", hollow=True),
    "downsample-bp": LineStyle(GREEN, "o", "--", hollow=True),
    "dorfman-binary": LineStyle(GREY, "D", ":"),
    "comp-binary": LineStyle(ORANGE, "^", ":"),
    "ncomp-2-binary": LineStyle(PURPLE, "^", ":"),
    "bp-binary": LineStyle(GREEN, "D", ":"),
    "adaptive-binary": LineStyle(VERMILION, "D", ":"),
}
"""By the name of a method, scheme or decoder; no two are alike."""
_SAME = {
    "ncomp-2": "ncomp",
    "ncomp (t=2)": "ncomp",
    "dorfman-8": "dorfman",
    "bp-soft": "bp",
    "map-soft": "map",
}
"""Other spellings of the same."""
_KNOWN_FOR = {
    "retests": "individual",
    "head": "cascade",
    "cheap head": "cascade",
    "pools": "oneshot",
    "front": "dorfman",
}
"""What is run on images and pools, and the method that lends it its colour."""


def styles_of(names: Iterable[str]) -> dict[str, LineStyle]:
    """A style for each of the names in one figure.

    Methods that poolsieve knows always look the same. Others, such as `mip (penalty=1)` or a decoder of one's
    own, have a style that follows from their name alone, in the colour of the method that they are a form
    of; only where two would look the same in one figure does the second get another.
    """
    wanted = list(dict.fromkeys(names))
    styles = {name: STYLES[_SAME.get(name, name)] for name in wanted if _SAME.get(name, name) in STYLES}
    for name in sorted(set(wanted) - styles.keys()):
        number = zlib.crc32(name.encode("utf-8", "backslashreplace"))
        known = STYLES.get(_method_of(name))
        colour = COLOURS[number % len(COLOURS)] if known is None else known.colour
        free = [
            style
            for style in (LineStyle(colour, marker, dashes) for marker, dashes in product(MARKERS, DASHES))
            if style not in STYLES.values()
        ]
        place = number // len(COLOURS) % len(free)
        taken = set(styles.values())
        styles[name] = next((one for one in free[place:] + free[:place] if one not in taken), free[place])
    return styles


def colour_of(part: str) -> str:
    """Colour of a method, or of what is run on images and pools: that of the method that is known for it."""
    method = _KNOWN_FOR.get(part, part)
    return styles_of([method])[method].colour


def _method_of(name: str) -> str:
    """`mip` of `mip (penalty=1) 50×100`, `dorfman` of `dorfman-4`."""
    first = name.partition(" ")[0].rstrip(",")
    return "dorfman" if first.startswith("dorfman-") else _SAME.get(first, first)
