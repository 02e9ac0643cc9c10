"""Merging the front features of pools, a block of pools at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.designs import NO_IMAGE
from poolsieve.engines.merging_kernel import merge_gated


def checked_pools(pools: ArrayLike, images: int, pool_size: int) -> NDArray[np.int64]:
    """A table of pools as the kernels take it.

    Args:
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, up to r)
        images: Number of images that there are features of.
        pool_size: Places in a pool, r.

    Raises:
        ValueError: A pool is too large, holds no image, or an image that is not there.
    """
    table = np.asarray(pools)
    if table.ndim != 2 or not np.issubdtype(table.dtype, np.integer):
        raise ValueError(f"pools is an integer table (pools, places); got {table.dtype} {table.shape}")
    if table.shape[1] > pool_size:
        raise ValueError(f"the network reads pools of up to {pool_size} images, not {table.shape[1]}")
    present = table != NO_IMAGE
    empty = np.flatnonzero(~present.any(axis=1))
    if empty.size:
        raise ValueError(f"pool {empty[0]} holds no image; leave empty pools out")
    wrong = table[present & ((table < 0) | (table >= images))]
    if wrong.size:
        raise ValueError(f"a pool names image {wrong[0]}, but there are features of {images} images")
    return np.ascontiguousarray(table, dtype=np.int64)


def merge_block(
    features: NDArray[np.float32], gate: NDArray[np.float32] | None, pools: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Entry-wise maximum over each pool's images, of features or of features times gate; sums of tallies.

    No more than the result is held at a time, and not the m·r gated maps that it is the maximum of. The
    maximum is equal to that of `poolsieve.networks.merge_pools` bit by bit.

    Args:
        features: Front features of n images.  # (n, C, H, W)
        gate: Their gates, and below them K maps or none that are summed; None merges features as they are.
            # (n, 1 + K, H, W)
        pools: From `checked_pools`; or the groups of each pool that are merged for themselves.
            # (m, r) or (m, G, images)

    Returns:
        Merged features, and the sums below them; those of a pool's groups below each other.
        # (m, C + K, H, W) or (m, G · C, H, W)
    """
    if pools.ndim == 3:
        groups = merge_block(features, gate, pools.reshape(-1, pools.shape[2]))
        return groups.reshape(len(pools), -1, *groups.shape[2:])
    images, channels, height, width = features.shape
    tallies = 0 if gate is None else gate.shape[1] - 1
    merged = np.empty((len(pools), channels + tallies, height * width), dtype=np.float32)
    opening = np.ones((images, height, width), np.float32) if gate is None else gate[:, 0]
    opening = np.ascontiguousarray(opening).reshape(images, -1)
    merge_gated(features.reshape(images, channels, -1), opening, pools, merged)
    if gate is not None and tallies:
        for row, pool in zip(merged, pools, strict=True):
            held = np.unique(pool[pool != NO_IMAGE])  # an image that is named twice counts once
            row[channels:] = gate[held, 1:].sum(axis=0).reshape(tallies, -1)
    return merged.reshape(-1, channels + tallies, height, width)
