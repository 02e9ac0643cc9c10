"""Verdict records: what was decided about each image, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

from poolsieve.shown_text import shown

Status = Literal["flagged", "clear", "error", "not_image"]


@dataclass(frozen=True)
class PoolReading:
    """One pool that an image was in.

    Attributes:
        number: The pool's number in its chunk.
        members: Positions of its images in the source.
        count: How many bad images were read.
        probabilities: How likely each number from 0 on makes what the network saw; sum 1.
    """

    number: int
    members: tuple[int, ...]
    count: int
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """What was decided about one image, with enough to explain it and to run it again.

    Attributes:
        path: The image as the source names it.
        sha256: Hash of the file's bytes (of the RGB pixels of an array or a PIL image); None if they could
            not be read.
        status: "flagged", "clear", "error" if the image could not be read, or "not_image" if the file has
            neither the name nor the content of an image.
        score: Higher is worse; None if the image was not judged.
        decided_by: "pools", "individual", "head" or "glance"; None if the image was not judged.
        reason: Why the image could not be read.
        position: Number of the image in the source.
        chunk: Number of the chunk that it was decided in.
        prior: Probability of being bad before pools were read, if there were pools or a first look.
        pool_score: The decoder's score from pools alone, before any test of the image itself; None if the
            image was in no pool.
        pools: The pools that it was in.
        note: What one should know of the decision about its chunk, such as a decoder that stopped early.
        bundle: Hash of the bundle.
        scheme: The scheme with its parameters.
        seed: Seed of the order in which chunks were dealt into pools.
    """

    path: str
    sha256: str | None
    status: Status
    score: float | None
    decided_by: str | None
    reason: str | None
    position: int
    chunk: int
    prior: float | None
    pool_score: float | None
    pools: tuple[PoolReading, ...]
    note: str | None
    bundle: str
    scheme: str
    seed: int

    @property
    def flagged(self) -> bool:
        """Whether the image is to be flagged.

        False does not mean clear: it is so too for what could not be read and was not judged; see `status`.
        """
        return self.status == "flagged"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Verdict:
        """The reverse of `to_json`."""
        pools = tuple(
            PoolReading(pool["number"], tuple(pool["members"]), pool["count"], tuple(pool["probabilities"]))
            for pool in values["pools"]
        )
        return cls(**{**values, "pools": pools})

    def explain(self, names: Mapping[int, str] = MappingProxyType({})) -> list[str]:
        """The grounds of the verdict, line by line, safe to print whatever the names are.

        Args:
            names: Names of the images at positions, for pool-mates; others are named by their position.
        """
        if self.status == "error":
            return [shown(f"{self.path}: could not be read: {self.reason}")]
        if self.status == "not_image":
            return [shown(f"{self.path}: not judged: {self.reason}")]
        lines = [f"{self.path}: {self.status}, score {self.score:.4f}, decided by {self.decided_by}"]
        if self.prior is not None:
            lines.append(f"  first look: probability of being bad {self.prior:.4f}")
        for pool in self.pools:
            probabilities = ", ".join(f"{count}: {p:.3f}" for count, p in enumerate(pool.probabilities))
            size = f"{len(pool.members)} image{'s' * (len(pool.members) != 1)}"
            lines.append(
                f"  pool {pool.number} ({size}) was read as holding {pool.count} bad "
                f"(probabilities {probabilities})"
            )
            mates = [names.get(mate, f"image {mate}") for mate in pool.members if mate != self.position]
            lines += [f"    with {mate}" for mate in mates]
        if self.pool_score is not None:
            lines.append(f"  score from its pools: {self.pool_score:.4f}")
        if self.note is not None:
            lines.append(f"  note: {self.note}")
        if self.decided_by == "individual":
            lines.append(f"  tested on its own: score {self.score:.4f}")
        lines.append(f"  chunk {self.chunk}, position {self.position}, seed {self.seed}")
        lines.append(f"  {self.scheme}, bundle {self.bundle[:12]}")
        return [shown(line) for line in lines]
