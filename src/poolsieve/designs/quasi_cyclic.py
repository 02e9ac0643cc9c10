"""Quasi-cyclic designs: a grid of circulants with shifts chosen greedily."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs.design_kernels import EMPTY, draw_shifts

_LOOKED_AT = 1024
"""Shifts that are weighed at once: the smallest that fits is seldom a large one."""


def quasi_cyclic(
    images: int, pool_size: int, pools_per_image: int, rng: np.random.Generator, *, attempts: int = 3000
) -> NDArray[np.int64] | None:
    """A c/g × r/g grid of circulants of weight g = gcd(r, c) and size ng/r (Fossorier 2004).

    Image jt + k is in pool it + (k + s mod t) for each shift s of block (i, j). The matrix has no 2×2 block
    of ones exactly if for every two block rows i, i' the differences s − s' of their shifts in the same
    column are all different (and for i = i' not 0). The first try takes the smallest shift that fits, the
    others take a random one.

    Returns:
        The pools, or None if all attempts got stuck.  # (m, r)
    """
    weight = math.gcd(pool_size, pools_per_image)
    block_rows, block_columns = pools_per_image // weight, pool_size // weight
    size = images // block_columns
    for attempt in range(attempts):
        seed = rng.integers(2**63, size=1, dtype=np.uint64)
        if attempt == 0:
            shifts = _smallest_shifts(block_rows, block_columns, weight, size)
        else:
            shifts = _random_shifts(block_rows, block_columns, weight, size, seed)
        if shifts is not None:
            return _pools(shifts, size)
    return None


def _smallest_shifts(block_rows: int, block_columns: int, weight: int, size: int) -> NDArray[np.int64] | None:
    """Shifts of which each is the smallest that fits those before it; None if it gets stuck.

    In numpy, because it nearly always works and compiling a kernel for it would take seconds.
    """
    shifts = np.empty((block_rows, block_columns, weight), dtype=np.int64)
    used = np.zeros((block_rows, block_rows, size), dtype=np.bool_)  # differences of two block rows
    for column in range(block_columns):
        present = owners = np.empty(0, dtype=np.int64)  # shifts in this column and their block rows
        for w in range(weight):
            for i in range(block_rows):
                shift = _smallest_that_fits(used[i], present, owners, present[owners == i])
                if shift is None:
                    return None
                shifts[i, column, w] = shift
                differences = (shift - present) % size
                used[i, owners, differences] = True
                used[owners, i, -differences % size] = True
                present, owners = np.append(present, shift), np.append(owners, i)
    return shifts


def _smallest_that_fits(
    used: NDArray[np.bool_], present: NDArray[np.int64], owners: NDArray[np.int64], own: NDArray[np.int64]
) -> int | None:
    """The smallest shift s whose differences to all that are present are new.

    s − a and b − s must also differ for all shifts a, b of its `own` block, or 2s = a + b.
    """
    size = used.shape[1]
    sums = (own[:, None] + own) % size
    for first in range(0, size, _LOOKED_AT):
        candidates = np.arange(first, min(first + _LOOKED_AT, size))
        repeated = used[owners, (candidates[:, None] - present) % size].any(axis=1)
        fits = ~(repeated | np.isin(2 * candidates % size, sums))
        if fits.any():
            return first + int(np.argmax(fits))
    return None


def _random_shifts(
    block_rows: int, block_columns: int, weight: int, size: int, seed: NDArray[np.uint64]
) -> NDArray[np.int64] | None:
    """Shifts drawn from those that fit; None if it gets stuck."""
    shifts = np.full((block_rows, block_columns, weight), EMPTY, dtype=np.int64)
    used = np.zeros((block_rows, block_rows, size), dtype=np.bool_)
    return shifts if draw_shifts(seed, shifts, used, np.arange(size)) else None


def _pools(shifts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Pools of the grid with these shifts (block_rows, block_columns, weight).  # (m, r)."""
    block_rows, block_columns, _ = shifts.shape
    offset = np.arange(size)[None, :, None, None]
    column = np.arange(block_columns)[None, None, :, None]
    pools = column * size + (offset - shifts[:, None]) % size  # (block_rows, size, block_columns, weight)
    return pools.reshape(block_rows * size, -1)
