"""Merging pools while training on cached features, without the gradients that a frozen front does not need.

`PooledNetwork.forward` serves any table of pools and gives gradients to the features, at the price of several
copies of all feature maps. Training batches have disjoint pools and, with a frozen front, need the gradient
of the gate only. That case is worked out here place by place; its values equal those of `PooledNetwork`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from poolsieve.networks import PooledNetwork


def merge_disjoint(
    network: PooledNetwork, features: Tensor, pool_size: int
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Merge pools whose images come place by place: all first images, then all second ones, ...

    Args:
        network: Its gate, if it has one, is applied.
        features: Front features.  # (r * m, C, H, W)
        pool_size: Places r.

    Returns:
        Merged features as the back takes them, (m, C, H, W) but for a tree, sums of what is tallied
        (m, K, H, W), and the gate's image logits (r * m,); the last two are None without a gate.
    """
    places = features.unflatten(0, (pool_size, -1))
    if network.gate is None:
        return network.merge_places(places.detach()), None, None
    gate, logits = network.gate(features)
    gates = gate.unflatten(0, (pool_size, -1))
    merged: Tensor = GatedMax.apply(places, gates[:, :, :1])
    return merged, gates[:, :, 1:].sum(dim=0), logits


class GatedMax(torch.autograd.Function):
    """max over places of gate x features, with the gradient of the gate alone."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, gate: Tensor) -> Tensor:
        """Merge.  # (r, m, C, H, W), (r, m, 1, H, W) -> (m, C, H, W)."""
        merged = features[0] * gate[0]
        winner = torch.zeros_like(merged, dtype=torch.uint8)
        for place in range(1, len(features)):
            gated = features[place] * gate[place]
            larger = gated > merged
            merged = torch.where(larger, gated, merged)
            winner.masked_fill_(larger, place)
        ctx.save_for_backward(features, winner)
        return merged

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        """The gradient of a place's gate sums over the channels in which that place was the largest."""
        features, winner = ctx.saved_tensors
        places = [
            (gradients[0] * values).mul_(winner == place).sum(dim=1, keepdim=True)
            for place, values in enumerate(features)
        ]
        return None, torch.stack(places)
