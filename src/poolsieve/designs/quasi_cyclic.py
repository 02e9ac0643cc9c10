"""Quasi-cyclic designs: a grid of circulants with shifts chosen greedily."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs.kernels import choose_shifts


def quasi_cyclic(
    images: int, pool_size: int, pools_per_image: int, rng: np.random.Generator, *, tries: int = 3000
) -> NDArray[np.int64] | None:
    """A c/g × r/g grid of circulants of weight g = gcd(r, c) and size ng/r (Fossorier 2004).

    Image jt + k is in pool it + (k + s mod t) for each shift s of block (i, j). The matrix has no 2×2 block
    of ones exactly if for every two block rows i, i' the differences s − s' of their shifts in the same
    column are all different (and for i = i' not 0). The first try takes the smallest shift that fits, the
    others take a random one.

    Returns:
        The pools, or None if all tries got stuck.  # (m, r)
    """
    weight = math.gcd(pool_size, pools_per_image)
    block_rows, block_columns = pools_per_image // weight, pool_size // weight
    size = images // block_columns
    for attempt in range(tries):
        seed = rng.integers(2**63, dtype=np.uint64)
        found, shifts = choose_shifts(block_rows, block_columns, weight, size, attempt == 0, seed)
        if found:
            return _pools(shifts, size)
    return None


def _pools(shifts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Pools of the grid with these shifts (block_rows, block_columns, weight).  # (m, r)."""
    block_rows, block_columns, _ = shifts.shape
    offset = np.arange(size)[None, :, None, None]
    column = np.arange(block_columns)[None, None, :, None]
    pools = column * size + (offset - shifts[:, None]) % size  # (block_rows, size, block_columns, weight)
    return pools.reshape(block_rows * size, -1)
