"""What the parts of a network cost, in multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from poolsieve.networks.backbone import SplitBackbone, without_numbers
from poolsieve.networks.gate import Gate
from poolsieve.networks.glance import GlanceNetwork


@dataclass(frozen=True)
class Cost:
    """Multiply-adds of the parts of a network for one image or one pool.

    Attributes:
        front: Images to front features, once per image.
        back: Front or merged features to the vector before the final layer, once per pool or retest.
        final: The last linear layer.
        gate: The gate with its cheap head, once per image; 0 if there is none.
        glance: The glance, once per image; 0 if there is none.
    """

    front: int
    back: int
    final: int
    gate: int = 0
    glance: int = 0

    @property
    def whole(self) -> int:
        """One individual test: front, back and final layer."""
        return self.front + self.back + self.final

    @property
    def front_share(self) -> float:
        """The front's share f of one individual test."""
        return self.front / self.whole

    @property
    def gate_share(self) -> float:
        """The gate's cost as a share of one individual test."""
        return self.gate / self.whole


def multiply_adds(
    backbone: SplitBackbone, gate: Gate | None = None, glance: GlanceNetwork | None = None
) -> Cost:
    """Multiply-adds of a cut backbone, of a gate on its front features, and of a glance beside them.

    Counted by torch's flop counter without computing anything: convolutions and matrix products, as is
    usual; a multiply-add is two of its floating-point operations.
    """
    stages = stage_multiply_adds(backbone)
    boundary = backbone.cut_points.index(backbone.cut) + 1
    counts = list(stages.values())
    vector = torch.empty(1, backbone.feature_width, device="meta")
    features = torch.empty(1, *backbone.feature_shape, device="meta")
    image = torch.empty(1, 3, backbone.input_size, backbone.input_size, device="meta")
    return Cost(
        front=sum(counts[:boundary]),
        back=sum(counts[boundary:]),
        final=_count(backbone.final, vector)[0],
        gate=0 if gate is None else _count(gate, features)[0],
        glance=0 if glance is None else _count(glance, image)[0],
    )


def stage_multiply_adds(backbone: SplitBackbone) -> dict[str, int]:
    """Multiply-adds of every stage by the name of its cut point, for one image."""
    values = torch.empty(1, 3, backbone.input_size, backbone.input_size, device="meta")
    counts: dict[str, int] = {}
    start = None
    for point in backbone.cut_points:
        counts[point], values = _count(backbone.segment(start, point), values)
        start = point
    return counts


def _count(module: nn.Module, values: Tensor) -> tuple[int, Tensor]:
    shapes_only = without_numbers(module)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = shapes_only(values)
    return counter.get_total_flops() // 2, result
