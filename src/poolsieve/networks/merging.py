"""Merging the front features of the images of a pool."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from poolsieve.designs import NO_IMAGE


def merge_pools(features: Tensor, pools: Tensor | ArrayLike) -> Tensor:
    """The paper's SFM: entry-wise maximum over the front features of each pool's images.

    The maximum is taken place by place, so that m maps exist at a time and not m·r, and the memory layout
    (channels first or last) is kept. An empty place repeats the pool's first image, which changes no
    maximum. The gradient of an entry goes to the image that it came from.

    Args:
        features: Front features of n images.  # (n, C, H, W)
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)

    Returns:
        Merged features.  # (m, C, H, W)

    Raises:
        ValueError: A pool holds no image, or an image that is not there.
    """
    places = _filled_places(pool_table(pools), len(features), features.device)
    # Rows of a plain matrix: gathering from channels-last maps directly is up to 100 times slower in torch.
    channels_last = features.is_contiguous(memory_format=torch.channels_last)
    maps = features.permute(0, 2, 3, 1) if channels_last else features
    rows = maps.flatten(1)
    merged = rows.index_select(0, places[0])
    for place in places[1:].unbind():
        merged = torch.maximum(merged, rows.index_select(0, place))
    merged = merged.unflatten(1, maps.shape[1:])
    return merged.permute(0, 3, 1, 2) if channels_last else merged


def sum_pools(maps: Tensor, pools: Tensor | ArrayLike) -> Tensor:
    """Sums over each pool's images of small maps; an image that is named twice counts once.

    Args:
        maps: Maps of n images.  # (n, K, H, W)
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)

    Returns:
        Sums.  # (m, K, H, W)
    """
    table = pool_table(pools).to(device=maps.device, dtype=torch.int64)
    held = torch.zeros(len(table), len(maps) + 1, dtype=maps.dtype, device=maps.device)
    held.scatter_(1, torch.where(table == NO_IMAGE, len(maps), table), 1.0)
    return (held[:, :-1] @ maps.flatten(1)).unflatten(1, maps.shape[1:])


def pool_table(pools: Tensor | ArrayLike) -> Tensor:
    """Pools as an integer tensor, checked.  # (m, r)."""
    table = pools if isinstance(pools, Tensor) else torch.from_numpy(np.array(pools))
    if table.ndim != 2 or table.is_floating_point() or 0 in table.shape:
        raise ValueError(f"pools is an integer table (pools, places); got {table.dtype} {tuple(table.shape)}")
    return table


def _filled_places(table: Tensor, images: int, device: torch.device) -> Tensor:
    """Image numbers place by place, empty places filled with the pool's first image.  # (r, m)."""
    table = table.to(device=device, dtype=torch.int64)
    present = table != NO_IMAGE
    empty = (~present.any(dim=1)).nonzero()
    if len(empty):
        raise ValueError(f"pool {int(empty[0])} holds no image; leave empty pools out")
    wrong = table[present & ((table < 0) | (table >= images))]
    if len(wrong):
        raise ValueError(f"a pool names image {int(wrong[0])}, but there are features of {images} images")
    first = table.gather(1, present.int().argmax(dim=1, keepdim=True))
    return torch.where(present, table, first).T.contiguous()
