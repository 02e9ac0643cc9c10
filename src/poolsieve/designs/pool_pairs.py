"""Pools as the pairs of images that are merged first, for networks that merge at several depths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.designs.pooling import NO_IMAGE


def check_pairs(pool_size: int, depths: int) -> None:
    """Raise ValueError unless pools can be merged so: pairs at every depth but the last, there all."""
    if depths < 2 or pool_size % 2 ** (depths - 1) or pool_size < 2**depths:
        raise ValueError(
            f"pools of {pool_size} cannot be merged at {depths} depths, pairs at all but the last: take at "
            f"least two depths, and a pool size that is a multiple of {2 ** max(depths - 1, 1)} and at least "
            f"{2 ** max(depths, 2)}"
        )


def pair_places(pools: ArrayLike, pool_size: int, depths: int) -> NDArray[np.int64]:
    """The two images of every first merge, a pool's pairs in a row.

    An empty place repeats what it would be merged with: its neighbour, an empty pair the pair beside it, and
    so on. That changes no maximum.

    Args:
        pools: Image numbers of each pool, −1 where a place is empty, at least one of each is not.  # (m, ≤ r)
        pool_size: Places r of a pool.
        depths: At how many depths pools are merged.

    Returns:
        Image numbers.  # (m · r/2, 2)
    """
    given = np.asarray(pools, dtype=np.int64)
    table = np.full((len(given), pool_size), NO_IMAGE)
    table[:, : given.shape[1]] = given
    for depth in range(depths):
        width = 2**depth  # places below one map that is merged at this depth, all filled or all empty
        siblings = 2 if depth < depths - 1 else pool_size // width
        blocks = table.reshape(len(table), pool_size // (siblings * width), siblings, width)
        held = blocks[..., 0] != NO_IMAGE
        first = np.take_along_axis(blocks, held.argmax(axis=2)[:, :, None, None], axis=2)
        table = np.where(held[..., None], blocks, first).reshape(len(table), pool_size)
    return table.reshape(-1, 2)
