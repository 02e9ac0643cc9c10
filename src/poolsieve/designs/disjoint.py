"""Disjoint pools, as in Dorfman's two-stage testing."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.feasibility import Parameters, broken_regularity
from poolsieve.designs.pooling import Pooling, PoolingDesign


def disjoint_design(images: int, pool_size: int, seed: int | None = None) -> Pooling:
    """Pools of r images that share none: every image is in exactly one (Dorfman 1943).

    Guarantees: every image in one pool, no two pools share an image. All pools hold r images if r divides
    n, and the result is then a `PoolingDesign`; else the last pool is short. A positive pool says nothing
    about which of its images is bad (the design is 0-disjunct), so this is for schemes that test again.

    Args:
        images: Number of images n.
        pool_size: Images in a pool r.
        seed: Deals the images out at random; None keeps them in order.
    """
    parameters = Parameters.checked(images, pool_size, 1)
    order = np.arange(parameters.images)
    if seed is not None:
        order = np.random.Generator(np.random.PCG64(seed)).permutation(parameters.images)
    pools = [
        order[start : start + parameters.pool_size]
        for start in range(0, parameters.images, parameters.pool_size)
    ]
    if broken_regularity(parameters) is None:
        return PoolingDesign(pools, parameters.images)
    return Pooling(pools, parameters.images, pool_size=parameters.pool_size)
