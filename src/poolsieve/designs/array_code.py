"""Array codes: balanced designs by arithmetic alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs.finite_field import FiniteField, prime_power

_LARGEST_FIELD = 1024
"""Larger q need no field: only a pool size or weight above 32 makes the integers modulo q fail there."""


def array_code(images: int, pool_size: int, pools_per_image: int) -> NDArray[np.int64] | None:
    """The array code (Fan 2000): c groups of q = n/r disjoint pools, group i shifted by i·j in column j.

    Pool (i, s) holds the images (j, s − ij) for j = 0, …, r − 1. Two groups i, i' meet twice in one pair of
    columns j, j' exactly if (i − i')(j − j') = 0. Modulo q this never happens for prime q ≥ max(r, c), and
    for other q it depends; in the field of q elements it never happens when q is a power of a prime.

    Returns:
        The pools, or None if the code does not exist for these numbers.  # (m, r)
    """
    if images % pool_size:
        return None
    size = images // pool_size
    group = np.repeat(np.arange(pools_per_image), size)[:, None]  # (m, 1)
    offset = np.tile(np.arange(size), pools_per_image)[:, None]  # (m, 1)
    column = np.arange(pool_size)
    differences = np.multiply.outer(np.arange(1, pools_per_image), np.arange(1, pool_size))
    if (differences % size != 0).all():
        return column * size + (offset - group * column) % size
    if max(pool_size, pools_per_image) <= size <= _LARGEST_FIELD and prime_power(size):
        field = FiniteField(size)
        # Adding instead of subtracting ij numbers the groups differently, no more.
        return column * size + field.add(offset, field.multiply(group, column))
    return None
