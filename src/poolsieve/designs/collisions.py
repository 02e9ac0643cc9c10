"""Two sets of bad images that give the same counts: where even readings without error cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.designs.design_kernels import equal_counts
from poolsieve.designs.pooling import Pooling

_STEPS = 20_000_000
"""Images tried before a search gives up: about a second."""


@dataclass(frozen=True)
class Collision:
    """What was found out about the smallest two sets of images with equal counts in every pool.

    Attributes:
        sets: The two sets, which have no image in common; None if none were found.
        distinct: Every set of up to this many images has counts of its own; n if no two sets are alike.
        images: Number of images n of the design.
    """

    sets: tuple[tuple[int, ...], tuple[int, ...]] | None
    distinct: int
    images: int

    @property
    def size(self) -> int | None:
        """Images in the larger of the two sets, k; None if none were found."""
        return None if self.sets is None else self.distinct + 1

    def __str__(self) -> str:
        """The size and an example, or how far the search went."""
        if self.sets is None:
            return "none" if self.distinct == self.images else f"over {self.distinct}: search stopped"
        one, other = (", ".join(map(str, images)) or "no image" for images in self.sets)
        return f"{self.size}: images {one} count as {other}"


def smallest_collision(design: Pooling, steps: int = _STEPS) -> Collision:
    """Search the smallest k for which two sets of up to k images give the same count in every pool.

    No decoder can find k bad images for certain then, not even from counts without error. Where two images
    share at most λ of their c pools, k is at least ⌈c/λ⌉: the pools of an image of one set must all be met by
    images of the other.

    Args:
        design: The design.
        steps: Images tried before the search gives up.
    """
    for k in range(1, design.images + 1):
        chosen, signs = np.empty(2 * k, dtype=np.int64), np.empty(2 * k, dtype=np.int64)
        found, larger, steps = equal_counts(
            design.pools, design.pools_of, design.pool_count, k, steps, chosen, signs
        )
        if found:
            one, other = (tuple(sorted(chosen[:found][signs[:found] == s].tolist())) for s in (1, -1))
            return Collision((one, other), k - 1, design.images)
        if steps < 0:
            return Collision(None, k - 1, design.images)
        if not larger:
            break
    return Collision(None, design.images, design.images)
