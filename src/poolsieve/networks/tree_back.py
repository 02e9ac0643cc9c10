"""Merging a pool at several depths: Design 3 of Neural Group Testing (Liang and Zou 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from poolsieve.designs.pool_pairs import check_pairs
from poolsieve.networks.backbone import SplitBackbone


class TreeBack(nn.Sequential):
    """The blocks behind the cut, with maps of a pool merged again between some of them.

    The images of a pool are merged in pairs at the cut, before this. Behind each of some later blocks what is
    left of a pool is merged again, in pairs, and behind the last of them all of it. Blocks in between run
    several times for a pool. Its parts are those of a back that merges once, so that one takes the weights of
    the other.

    Args:
        backbone: Its back is taken, not copied.
        again: Cut points behind its cut, in order, behind which maps are merged.
        pool_size: Images in a pool.
    """

    def __init__(self, backbone: SplitBackbone, again: Sequence[str], pool_size: int) -> None:
        super().__init__(*backbone.back)
        boundary = backbone.cut_points.index(backbone.cut) + 1
        behind = backbone.cut_points[boundary:]
        places = [behind.index(point) if point in behind else -1 for point in again]
        if not places or -1 in places or places != sorted(set(places)):
            raise ValueError(
                f"maps are merged again at cut points behind {backbone.cut}, in order: {', '.join(behind)}; "
                f"not at {', '.join(again) or 'none'}"
            )
        check_pairs(pool_size, 1 + len(places))
        self.pairs, self.again = pool_size // 2, tuple(places)

    def forward(self, merged: Tensor) -> Tensor:
        """Merged pairs to the vector before the final layer.

        Args:
            merged: Maximum over each pair of images, a pool's pairs below each other.  # (m, r/2 · C, H, W)

        Returns:
            Vectors.  # (m, F)
        """
        # No step names a height or width, so that an exported graph works on maps of any size.
        maps = torch.stack(merged.chunk(self.pairs, dim=1), dim=1).flatten(0, 1)  # (m · r/2, C, H, W)
        left = self.pairs
        for place, block in enumerate(self):
            maps = block(maps)
            if place in self.again:
                times = left if place == self.again[-1] else 2
                maps = reduce(torch.maximum, [maps[sibling::times] for sibling in range(times)])
                left //= times
        return maps
