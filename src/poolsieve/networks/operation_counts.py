"""How many multiply-adds the parts of a network take."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from poolsieve.multiply_adds import MultiplyAdds
from poolsieve.networks.backbone import SplitBackbone, without_numbers
from poolsieve.networks.gate import Gate
from poolsieve.networks.glance_network import GlanceNetwork
from poolsieve.networks.tree_back import TreeBack


def multiply_adds(
    backbone: SplitBackbone,
    gate: Gate | None = None,
    glance: GlanceNetwork | None = None,
    tree: TreeBack | None = None,
) -> MultiplyAdds:
    """Multiply-adds of a cut backbone, of a gate on its front features, of a glance, and of a tree of pools.

    Counted by torch's flop counter without computing anything: convolutions and matrix products, as is
    usual; a multiply-add is two of its floating-point operations.
    """
    counts = list(stage_multiply_adds(backbone).values())
    boundary = backbone.cut_points.index(backbone.cut) + 1
    vector = torch.empty(1, backbone.feature_width, device="meta")
    features = torch.empty(1, *backbone.feature_shape, device="meta")
    image = torch.empty(1, 3, backbone.input_size, backbone.input_size, device="meta")
    final = _count(backbone.final, vector)[0]
    pairs = None if tree is None else features.repeat(1, tree.pairs, 1, 1)
    return MultiplyAdds(
        front=sum(counts[:boundary]),
        back=sum(counts[boundary:]),
        final=final,
        gate=0 if gate is None else _count(gate, features)[0],
        glance=0 if glance is None else _count(glance, image)[0],
        pooled=0 if tree is None or pairs is None else _count(tree, pairs)[0] + final,
    )


def stage_multiply_adds(backbone: SplitBackbone) -> dict[str, int]:
    """Multiply-adds of every stage by the name of its cut point, for one image."""
    values = torch.empty(1, 3, backbone.input_size, backbone.input_size, device="meta")
    counts, start = {}, None
    for point in backbone.cut_points:
        counts[point], values = _count(backbone.segment(start, point), values)
        start = point
    return counts


def _count(module: nn.Module, values: Tensor) -> tuple[int, Tensor]:
    shapes_only = without_numbers(module)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = shapes_only(values)
    return counter.get_total_flops() // 2, result
