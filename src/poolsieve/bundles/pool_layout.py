"""How the images of a recorded chunk are dealt into pools."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from poolsieve.designs import Pooling
from poolsieve.designs.finite_geometry import array_code

USUAL_IMAGES = 272
"""Images of a recorded chunk: it has array codes for pools of 4, 8 and 16."""
MOST_CLASSES = 6


@dataclass(frozen=True)
class PoolLayout:
    """Pools in parallel classes: each class deals all images out once.

    The first c classes alone are a design with c pools per image, and any two of their pools share at most
    one image. So one recording serves every number of pools per image.

    Attributes:
        images: Images of a chunk.
        pool_size: Images in a pool; divides `images`.
        classes: Parallel classes.
    """

    images: int
    pool_size: int
    classes: int

    @property
    def pools_per_class(self) -> int:
        """Pools of one class."""
        return self.images // self.pool_size

    @cached_property
    def pooling(self) -> Pooling:
        """All pools, class after class."""
        pools = array_code(self.images, self.pool_size, self.classes)
        if pools is None:
            raise ValueError(f"there is no array code for {self}")
        return Pooling(pools, self.images, pool_size=self.pool_size)

    def first(self, classes: int) -> Pooling:
        """The pools of the first classes alone; a code with fewer classes may have other pools."""
        pools = self.pooling.pools[: classes * self.pools_per_class]
        return Pooling(pools, self.images, pool_size=self.pool_size)


def layout_for(images: int, pool_size: int, classes: int) -> PoolLayout:
    """The layout with the most of these images that has as many classes as asked for, or nearly.

    Raises:
        ValueError: There are too few images for a single pool.
    """
    for wanted in range(classes, 0, -1):
        for per_class in range(images // pool_size, 0, -1):
            if array_code(per_class * pool_size, pool_size, wanted) is not None:
                return PoolLayout(per_class * pool_size, pool_size, wanted)
    raise ValueError(
        f"{images} validation images are too few for pools of {pool_size}; give more labelled images"
    )
