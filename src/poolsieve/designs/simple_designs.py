"""Designs that need no search: disjoint pools, grids, and random ones with and without balance."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.edge_switching import random_regular
from poolsieve.designs.feasibility import Parameters, broken_regularity, regular_neighbours, whole
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
    n, r, _ = parameters
    order = np.arange(n)
    if seed is not None:
        order = np.random.Generator(np.random.PCG64(seed)).permutation(n)
    pools = [order[start : start + r] for start in range(0, n, r)]
    if broken_regularity(parameters) is None:
        return PoolingDesign(pools, n)
    return Pooling(pools, n, pool_size=r)


def grid_design(rows: int, columns: int) -> Pooling:
    """One pool for each row and one for each column of a grid of rows × columns images.

    Guarantees: every image in two pools, any two pools share at most one image. Rows hold as many images as
    there are columns and the other way round, so all pools are equal, and the result is a `PoolingDesign`,
    exactly if the grid is square. The design is 1-disjunct if both sides are at least 2.
    """
    rows, columns = whole("rows", rows), whole("columns", columns)
    grid = np.arange(rows * columns).reshape(rows, columns)
    kind = PoolingDesign if rows == columns else Pooling
    return kind([*grid, *grid.T], rows * columns)


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


def doubly_regular(images: int, pool_size: int, pools_per_image: int, seed: int = 0) -> Pooling:
    """Random pools of exactly r images with every image in exactly c of them; see `balanced_design`.

    Guarantees: all pools are equal and all images are in equally many; any two pools may share any number
    of images, unlike in `balanced_design`. So it exists also where no balanced design can, namely whenever
    r divides nc and r ≤ n.
    """
    parameters = Parameters.checked(images, pool_size, pools_per_image)
    broken = broken_regularity(parameters)
    if broken:
        choices = "; ".join(map(str, regular_neighbours(parameters)))
        raise ValueError(f"no doubly regular design: {broken}. Nearby choices that work: {choices}")
    rng = np.random.Generator(np.random.PCG64(seed))
    pools = random_regular(*parameters, rng)
    return Pooling(rng.permutation(parameters.images)[pools], parameters.images)
