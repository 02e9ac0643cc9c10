"""What it costs to run networks: the one account that all schemes are metered and planned by.

The cost of one image is the sum of what was run for it, as a share of one individual test. For one front and
pools that is `f + (m/n + retests)·(1 − f)`, f being the share of the front, plus the head where it is run.
Where the individual network looks at images itself, a retest costs 1. Where pools are merged at several
depths, a pool costs more than the 1 − f of a retest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol


class Price(Protocol):
    """Multiply-adds of the parts of a network, such as a bundle's `config.cost`."""

    @property
    def front(self) -> int:
        """Image to front features."""

    @property
    def back(self) -> int:
        """Front or merged features to the vector before the final layer."""

    @property
    def final(self) -> int:
        """The last layer."""

    @property
    def gate(self) -> int:
        """The gate with the cheap head."""

    @property
    def glance(self) -> int:
        """The glance at a shrunken image, or at front features."""

    @property
    def individual(self) -> int:
        """The individual network where it looks at images itself, not at front features; else 0."""

    @property
    def pooled(self) -> int:
        """Back and last layer for one pool where pools are merged at several depths; else 0."""

    @property
    def whole(self) -> int:
        """One individual test."""


@dataclass(frozen=True)
class Part:
    """Something that is run on an image or a pool.

    Attributes:
        name: In records and reports.
        plural: For people.
        title: For reports.
        multiply_adds: By the names of a `Price`, summed.
        instead: Another name, which counts in their place if it has a price.
    """

    name: str
    plural: str
    title: str
    multiply_adds: tuple[str, ...]
    instead: str | None = None

    def priced(self, price: Price) -> tuple[str, ...]:
        """The names of a `Price` that one run costs the sum of."""
        if self.instead is not None and getattr(price, self.instead):
            return (self.instead,)
        return self.multiply_adds

    def cost(self, price: Price) -> int:
        """Multiply-adds of one run."""
        return sum(getattr(price, name) for name in self.priced(price))


_PARTS: dict[str, Part] = {}


def register_part(part: Part) -> Part:
    """Make a part known, so that it is counted and shown."""
    if part.name in _PARTS:
        raise ValueError(f"a part named {part.name!r} is registered already")
    _PARTS[part.name] = part
    return part


def list_parts() -> list[Part]:
    """All parts."""
    return list(_PARTS.values())


FRONT = register_part(Part("front", "fronts", "front, at most once for each image", ("front",)))
HEAD = register_part(Part("head", "heads", "cheap head", ("gate",)))
POOLS = register_part(Part("pools", "pools", "pools", ("back", "final"), instead="pooled"))
RETESTS = register_part(
    Part("retests", "retests", "tests of single images", ("back", "final"), instead="individual")
)


def _zeros() -> dict[str, Any]:
    return Counter()  # what is missing is 0


@dataclass
class Work:
    """How often each part was run, or is expected to be.

    Attributes:
        price: Multiply-adds of each part.
        images: Images that were judged; those that could not be read cost nothing.
        runs: Runs of each part, by its name.
    """

    price: Price
    images: float = 0
    runs: dict[str, float] = field(default_factory=_zeros)

    def parts(self) -> list[Part]:
        """All parts, those that were run first in that order."""
        order = [*self.runs, *(part.name for part in list_parts())]
        return sorted(list_parts(), key=lambda part: order.index(part.name))

    @property
    def multiply_adds(self) -> int:
        """All that was computed."""
        return round(sum(self.runs[part.name] * part.cost(self.price) for part in list_parts()))

    @property
    def share(self) -> float:
        """Cost as a share of testing every image individually; 0 if there was none."""
        return sum(self.shares().values())

    def shares(self) -> dict[str, float]:
        """What each part cost, as a share of testing every image individually."""
        paid = max(self.images, 1) * self.price.whole
        return {part.name: self.runs[part.name] * part.cost(self.price) / paid for part in list_parts()}


@dataclass
class CostMeter(Work):
    """Counts what is run, and the time that it takes.

    Attributes:
        seconds: Time in each kind of work; reading counts only the time that the network waited for it.
    """

    seconds: dict[str, float] = field(default_factory=_zeros)

    @contextmanager
    def time(self, what: str) -> Iterator[None]:
        """Add the time of the block to a kind of work."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - begin

    @property
    def total_seconds(self) -> float:
        """Time of all work."""
        return sum(self.seconds.values())

    def counts(self) -> dict[str, Any]:
        """Counts and seconds as plain values."""
        return {"images": self.images, "runs": dict(self.runs), "seconds": dict(self.seconds)}

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add what an earlier run counted."""
        self.images += counts["images"]
        for mine, theirs in ((self.runs, counts["runs"]), (self.seconds, counts["seconds"])):
            for name, value in theirs.items():
                mine[name] += value

    def lines(self) -> list[str]:
        """For people: the counts, the cost and the time of each kind of work."""
        runs = [f"{self.runs[part.name]:,.0f} {part.plural}" for part in self.parts() if self.runs[part.name]]
        times = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in self.seconds.items())
        return [
            ", ".join(runs) or "nothing was run",
            f"{self.multiply_adds / 1e9:,.1f} G multiply-adds, {self.share:.3f} of individual testing",
            times or "no time spent",
        ]
