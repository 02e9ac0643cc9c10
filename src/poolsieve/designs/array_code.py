"""Array codes: balanced designs by arithmetic alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def array_code(images: int, pool_size: int, pools_per_image: int) -> NDArray[np.int64] | None:
    """The array code (Fan 2000): c groups of q = n/r disjoint pools, group i shifted by i·j in column j.

    Image jq + k is in pool iq + (k + ij mod q). Two groups i, i' meet twice in one pair of columns j, j'
    exactly if (i − i')(j − j') is a multiple of q, so for prime q ≥ max(r, c) this always works.

    Returns:
        The pools, or None if the code does not exist for these numbers.  # (m, r)
    """
    if images % pool_size:
        return None
    size = images // pool_size
    products = np.multiply.outer(np.arange(1, pools_per_image), np.arange(1, pool_size))
    if (products % size == 0).any():
        return None
    group = np.repeat(np.arange(pools_per_image), size)[:, None]  # (m, 1)
    offset = np.tile(np.arange(size), pools_per_image)[:, None]  # (m, 1)
    column = np.arange(pool_size)
    return column * size + (offset - group * column) % size
