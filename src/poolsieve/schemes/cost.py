"""What a scheme costs: the one meter that all schemes run on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Stage = Literal["reading", "glance", "front", "head", "pools", "decoding", "retests"]


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
        """The glance at a shrunken image."""


@dataclass
class CostMeter:
    """Counts what is run; the cost of one image is `f + (m/n + retests)·(1 − f)`, plus that of the head.

    With a glance only the images that it leaves have a front.

    Attributes:
        price: Multiply-adds of each part.
        images: Images that were judged; those that could not be read cost nothing.
        fronts: Runs of the front.
        heads: Runs of the gate with the cheap head.
        pools: Runs of the back on merged features.
        retests: Runs of the back on one image's front features. The scheme that tests every image
            individually has one of them for each image.
        glances: Runs of the glance.
        seconds: Time in each stage; reading counts only the time that the network waited for it.
    """

    price: Price
    images: int = 0
    fronts: int = 0
    heads: int = 0
    pools: int = 0
    retests: int = 0
    glances: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, stage: Stage) -> Iterator[None]:
        """Add the time of the block to a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begin

    @property
    def multiply_adds(self) -> int:
        """All that was computed."""
        price = self.price
        backs = (self.pools + self.retests) * (price.back + price.final)
        looks = self.heads * price.gate + self.glances * price.glance
        return self.fronts * price.front + looks + backs

    @property
    def share(self) -> float:
        """Cost as a share of testing every image individually; 0 if there was none."""
        whole = self.price.front + self.price.back + self.price.final
        return self.multiply_adds / (self.images * whole) if self.images else 0.0

    @property
    def total_seconds(self) -> float:
        """Time in all stages."""
        return sum(self.seconds.values())

    def counts(self) -> dict[str, Any]:
        """Counts and seconds as plain values."""
        values = asdict(self)
        del values["price"]
        return values

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add what an earlier run counted."""
        for name in ("images", "fronts", "heads", "pools", "retests", "glances"):
            setattr(self, name, getattr(self, name) + int(counts.get(name, 0)))
        for stage, seconds in counts["seconds"].items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + float(seconds)

    def lines(self) -> list[str]:
        """For people: the counts, the cost and the time of each stage."""
        stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in self.seconds.items())
        glances = f"{self.glances:,} glances, " if self.glances else ""
        return [
            f"{glances}{self.fronts:,} fronts, {self.heads:,} heads, {self.pools:,} pools, "
            f"{self.retests:,} retests",
            f"{self.multiply_adds / 1e9:,.1f} G multiply-adds, {self.share:.3f} of individual testing",
            stages or "no time spent",
        ]
