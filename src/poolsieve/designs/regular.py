"""Regular designs without a limit on overlaps."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.edge_switching import random_regular
from poolsieve.designs.feasibility import Parameters, broken_regularity, regular_neighbours
from poolsieve.designs.pooling import Pooling


def doubly_regular(images: int, pool_size: int, pools_per_image: int, seed: int = 0) -> Pooling:
    """Random pools of exactly r images with every image in exactly c of them.

    Guarantees: all pools are equal and all images are in equally many; any two pools may share any number
    of images, unlike in `balanced_design`. So it exists also where no balanced design can, namely whenever
    r divides nc and r ≤ n.

    Args:
        images: Number of images n.
        pool_size: Images in a pool r.
        pools_per_image: Pools of an image c.
        seed: The same seed gives the same design, on every machine; other seeds give other designs.
    """
    parameters = Parameters.checked(images, pool_size, pools_per_image)
    broken = broken_regularity(parameters)
    if broken:
        choices = "; ".join(map(str, regular_neighbours(parameters)))
        raise ValueError(f"no doubly regular design: {broken}. Nearby choices that work: {choices}")
    rng = np.random.Generator(np.random.PCG64(seed))
    pools = random_regular(*parameters, rng)
    image_names = rng.permutation(parameters.images)
    return Pooling(image_names[pools], parameters.images)
