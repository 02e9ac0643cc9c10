"""The smallest chunk that costs hardly more than a full one, reckoned with networks that see the truth."""

from __future__ import annotations

import math

import numpy as np

from poolsieve.bundles import BundleConfig
from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, Scheme
from poolsieve.schemes.planted import PlantedNetworks, planted_calibration, planted_pixels

WITHIN = 1.05
"""Cost of a chunk at the knee, as a multiple of a full chunk's."""
_IMAGES = 2000
"""Images, at least, that an expected cost is reckoned from."""
_STEPS = 16


def find_knee(scheme: Scheme, config: BundleConfig) -> int:
    """Images from which on a chunk costs at most 5% more than a full one; 1 for a scheme without pools.

    Args:
        scheme: Decides.
        config: Of the bundle, for what its networks cost.
    """
    if not scheme.pools:
        return 1
    full = scheme.chunk_size
    sizes = sorted({max(1, round(full * step / _STEPS)) for step in range(1, _STEPS + 1)})
    limit = WITHIN * expected_cost(scheme, config, full)
    return next(size for size in sizes if size == full or expected_cost(scheme, config, size) <= limit)


def expected_cost(scheme: Scheme, config: BundleConfig, images: int) -> float:
    """Cost of a chunk as a share of testing each image, at the prevalence that the scheme expects."""
    meter, rng = CostMeter(config.cost), np.random.default_rng(0)
    likelihoods = LikelihoodModel(planted_calibration(config.pool_sizes))
    for _ in range(math.ceil(_IMAGES / images)):
        pixels = planted_pixels(rng.random(images) < scheme.prevalence)
        chunk = Chunk(
            *(PlantedNetworks(), likelihoods, meter, pixels, np.arange(images), images),
            gated=config.merge == "gated",
        )
        scheme.decide(chunk, rng)
    return meter.share
