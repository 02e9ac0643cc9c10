"""Merging pools while training on cached features, without the gradients that a frozen front does not need.

`PooledNetwork.forward` serves any table of pools and gives gradients to the features, at the price of several
copies of all feature maps. Training batches have disjoint pools and, with a frozen front, need the gradient
of the gate only. That case is worked out here place by place; its values equal those of `PooledNetwork`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def max_of_places(features: Tensor) -> Tensor:
    """Entry-wise maximum over places. (r, m, C, H, W) -> (m, C, H, W), no gradient."""
    with torch.no_grad():
        merged = features[0].float()
        for place in features[1:]:
            merged = torch.maximum(merged, place.float())
    return merged


class GatedMax(torch.autograd.Function):
    """max over places of gate x features, with the gradient of the gate alone."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, gate: Tensor) -> Tensor:
        """Merge.

        Args:
            ctx: Where torch keeps what the gradient needs.
            features: Front features, place by place.  # (r, m, C, H, W)
            gate: The gate of every image.  # (r, m, 1, H, W)

        Returns:
            Merged features.  # (m, C, H, W)
        """
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
        gradient = gradients[0]
        places = [
            (gradient * features[place]).mul_(winner == place).sum(dim=1, keepdim=True)
            for place in range(len(features))
        ]
        return None, torch.stack(places)


def gated_max_of_places(features: Tensor, gate: Tensor) -> Tensor:
    """Gated maximum over places, differentiable in the gate.

    Args:
        features: Front features, place by place.  # (r, m, C, H, W)
        gate: The gate of every image.  # (r, m, 1, H, W)

    Returns:
        Merged features.  # (m, C, H, W)
    """
    merged: Tensor = GatedMax.apply(features, gate)
    return merged
