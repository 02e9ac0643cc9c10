"""Balanced designs with single overlaps: the pooling matrix that the paper asks for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs import feasibility
from poolsieve.designs.edge_switching import edge_switching
from poolsieve.designs.feasibility import Parameters, broken_bound
from poolsieve.designs.finite_geometry import array_code, finite_plane
from poolsieve.designs.pooling import PoolingDesign
from poolsieve.designs.quasi_cyclic import quasi_cyclic

_LOOK_AHEAD = 12
"""Neighbouring parameters that are tried for a suggestion."""
_MOST_PLACES_TRIED = 200_000
"""Neighbours with more places than this (n·c) are not tried: a suggestion must come at once."""


def balanced_design(images: int, pool_size: int, pools_per_image: int, seed: int = 0) -> PoolingDesign:
    """A design for n images with pools of r, every image in c pools, and single overlaps.

    Guarantees: all pools have r images, all images c pools, any two pools share at most one image and any
    two images at most one pool. Hence the design is (c−1)-disjunct, so that counts without error tell any
    c − 1 bad images, and has RIP-1 of order c, so that ⌊c/2⌋ are recovered robustly. The paper states order
    2c (appendix "Choice of Φ"), but two sets of c images may give the same counts (`smallest_collision`).

    Constructions are tried from the cheapest to the most persistent: array code, finite plane, quasi-cyclic
    with greedy shifts, random trades of images between pools. Images and pools are then numbered at random.

    Args:
        images: Number of images n.
        pool_size: Images in a pool r.
        pools_per_image: Pools of an image c.
        seed: The same seed gives the same design, on every machine; other seeds give other designs.

    Raises:
        ValueError: No such design exists (the message names the bound that is broken), or it is so close
            to the bounds that none was found; either way the message names choices that work.
    """
    parameters = Parameters.checked(images, pool_size, pools_per_image)
    bound = broken_bound(parameters)
    if bound:
        raise ValueError(f"no balanced design: {bound}. {_advice(parameters)}")
    rng = np.random.Generator(np.random.PCG64(seed))
    pools = _structured(parameters, rng)
    if pools is None:
        pools = edge_switching(*parameters, rng)
    if pools is None:
        n, r, c = parameters
        raise ValueError(
            f"no balanced design found for {parameters}: the counting bounds allow it but leave little room, "
            f"c(r − 1) = {c * (r - 1)} of at most n − 1 = {n - 1} and r(c − 1) = {r * (c - 1)} of at most "
            f"m − 1 = {parameters.pool_count - 1}. {_advice(parameters)}"
        )
    image_names = rng.permutation(parameters.images)
    pool_order = rng.permutation(len(pools))
    return PoolingDesign(image_names[pools[pool_order]], parameters.images)


def _structured(
    parameters: Parameters, rng: np.random.Generator, attempts: int = 3000
) -> NDArray[np.int64] | None:
    """The constructions that are quick whether they work or not."""
    pools = array_code(*parameters)
    if pools is None:
        pools = finite_plane(*parameters)
    if pools is None:
        pools = quasi_cyclic(*parameters, rng, attempts=attempts)
    return pools


def _advice(parameters: Parameters) -> str:
    """Choices near these parameters that do work, each one tried."""
    ways = (feasibility.smaller, feasibility.larger, feasibility.lighter, feasibility.shorter)
    choices = filter(None, (_first_that_works(neighbours(parameters)) for neighbours in ways))
    found = "; ".join(map(str, choices))
    return f"Nearby choices that work: {found}" if found else "No choice nearby is small enough to try."


def _first_that_works(neighbours: Iterator[Parameters]) -> Parameters | None:
    rng = np.random.Generator(np.random.PCG64(0))
    for choice in islice(neighbours, _LOOK_AHEAD):
        if choice.images * choice.pools_per_image > _MOST_PLACES_TRIED:
            return None
        if _structured(choice, rng, attempts=50) is not None:
            return choice
    return None
