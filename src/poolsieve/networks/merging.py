"""Merging the front features of the images of a pool."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from poolsieve.designs import NO_IMAGE


def merge_pools(features: Tensor, pools: Tensor | ArrayLike) -> Tensor:
    """The paper's SFM: entry-wise maximum over the front features of each pool's images.

    The maximum is taken place by place, so that m maps exist at a time and not m·r. An empty place repeats
    the pool's first image, which changes no maximum.

    Args:
        features: Front features of n images.  # (n, C, H, W)
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)

    Returns:
        Merged features.  # (m, C, H, W)

    Raises:
        ValueError: A pool holds no image, or an image that is not there.
    """
    places = filled_places(pools, len(features), features.device)  # (r, m)
    merged = features.index_select(0, places[0])
    for place in places[1:]:
        merged = torch.maximum(merged, features.index_select(0, place))
    return merged


def filled_places(pools: Tensor | ArrayLike, images: int, device: torch.device) -> Tensor:
    """Image numbers place by place, empty places filled with the pool's first image.  # (r, m)."""
    table = pools if isinstance(pools, Tensor) else torch.from_numpy(np.array(pools))
    if table.ndim != 2 or table.is_floating_point() or table.shape[1] == 0:
        raise ValueError(f"pools is an integer table (pools, places); got {table.dtype} {tuple(table.shape)}")
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
