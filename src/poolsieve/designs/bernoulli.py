"""Random designs without any balance, for comparison."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.feasibility import whole
from poolsieve.designs.pooling import Pooling


def random_design(images: int, pools: int, probability: float, seed: int = 0) -> Pooling:
    """Every image is in every pool with the same probability, independently (Bernoulli design).

    Guarantees: none. Pools have different sizes, some may be empty; images are in different numbers of
    pools, some perhaps in none; two pools may share any number of images. `pool_size` is the size of the
    largest pool that came out.
    """
    images, pools = whole("images", images), whole("pools", pools)
    if not 0 < probability <= 1:
        raise ValueError(f"probability={probability} is not in (0, 1]")
    rng = np.random.Generator(np.random.PCG64(seed))
    # One pool at a time: the matrix need not fit into memory.
    return Pooling([np.flatnonzero(rng.random(images) < probability) for _ in range(pools)], images)
