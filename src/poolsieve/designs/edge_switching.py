"""Random regular designs, made by trading images between pools."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs.design_kernels import mix, remove_blocks

_MIXING = 10
"""Trades per entry of the matrix that make a regular start random."""


def random_regular(
    images: int, pool_size: int, pools_per_image: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Pools of r images with every image in c of them, otherwise random; pools may share many images.

    Pool q starts with images qr, …, qr + r − 1 (mod n); random trades, none of which puts an image twice
    into a pool, then mix the pools. So this always succeeds, also for dense matrices.  # (m, r)
    """
    return _random_slots(images, pool_size, pools_per_image, rng)[0]


def edge_switching(
    images: int,
    pool_size: int,
    pools_per_image: int,
    rng: np.random.Generator,
    *,
    restarts: int = 3,
    trades: int = 400_000,
) -> NDArray[np.int64] | None:
    """A random regular design whose 2×2 blocks of ones are traded away, one by one.

    From each of the random starts so many `trades` are weighed before it gives up: a number and not a time,
    so that the outcome is the same on every machine.

    Returns:
        The pools, or None if some blocks were left at every attempt.  # (m, r)
    """
    for _ in range(restarts):
        slots = _random_slots(images, pool_size, pools_per_image, rng)
        seed = rng.integers(2**63, dtype=np.uint64)
        if remove_blocks(*slots, trades, seed):
            return slots[0]
    return None


def _random_slots(
    images: int, pool_size: int, pools_per_image: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The index arrays that the kernels change: `pools_of[pools[q, p], ranks[q, p]] == q`."""
    entries = images * pools_per_image
    pools = np.arange(entries).reshape(-1, pool_size) % images
    order = np.argsort(pools, axis=None, kind="stable")  # slots, by image
    pools_of = (order // pool_size).reshape(images, pools_per_image)
    ranks = np.empty(pools.shape, dtype=np.int64)
    ranks.flat[order] = np.tile(np.arange(pools_per_image), images)
    mix(pools, pools_of, ranks, _MIXING * entries, rng.integers(2**63, dtype=np.uint64))
    return pools, pools_of, ranks
