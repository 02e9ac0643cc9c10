"""ResNet and ResNeXt, in the key layout of torchvision's weight files.

Architectures after He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), with the stride in
the 3×3 convolution of a bottleneck as torchvision has it, and Xie et al., "Aggregated Residual
Transformations for Deep Neural Networks" (CVPR 2017). `resnext101_32x8d` is the paper's network.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor, nn

from poolsieve.networks.backbone import Preprocessing, SplitBackbone


@dataclass(frozen=True)
class ResNetLayout:
    """What tells one ResNet from another.

    Attributes:
        depths: Blocks in each of the four layers.
        bottleneck: Blocks of three convolutions instead of two.
        groups: Groups of the 3×3 convolution in a bottleneck ("cardinality").
        group_width: Channels of each group in the first layer.
    """

    depths: tuple[int, int, int, int]
    bottleneck: bool = True
    groups: int = 1
    group_width: int = 64


LAYOUTS = {
    "resnet18": ResNetLayout((2, 2, 2, 2), bottleneck=False),
    "resnet34": ResNetLayout((3, 4, 6, 3), bottleneck=False),
    "resnet50": ResNetLayout((3, 4, 6, 3)),
    "resnet101": ResNetLayout((3, 4, 23, 3)),
    "resnet152": ResNetLayout((3, 8, 36, 3)),
    "resnext50_32x4d": ResNetLayout((3, 4, 6, 3), groups=32, group_width=4),
    "resnext101_32x8d": ResNetLayout((3, 4, 23, 3), groups=32, group_width=8),
    "wide_resnet50_2": ResNetLayout((3, 4, 6, 3), group_width=128),
}
DEFAULT_CUT = "layer2"
"""The paper's cut: counting the stem, this is the third stage (512×28×28 for bottlenecks at 224 px)."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a skip connection."""

    expansion = 1

    def __init__(self, inputs: int, base: int, stride: int, layout: ResNetLayout) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, base, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(base)
        self.conv2 = nn.Conv2d(base, base, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(base)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, base, stride)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the block.  # (N, inputs, H, W) -> (N, base, H', W')."""
        inner = self.relu(self.bn1(self.conv1(values)))
        return self.relu(self.bn2(self.conv2(inner)) + self.downsample(values))


class Bottleneck(nn.Module):
    """Narrow, 3×3 convolution in groups, widen, beside a skip connection."""

    expansion = 4

    def __init__(self, inputs: int, base: int, stride: int, layout: ResNetLayout) -> None:
        super().__init__()
        width = base * layout.group_width // 64 * layout.groups
        outputs = base * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, groups=layout.groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, outputs, stride)

    def forward(self, values: Tensor) -> Tensor:
        """Apply the block.  # (N, inputs, H, W) -> (N, 4·base, H', W')."""
        inner = self.relu(self.bn1(self.conv1(values)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        return self.relu(self.bn3(self.conv3(inner)) + self.downsample(values))


def build_resnet(name: str, *, cut: str | None, input_size: int | None) -> SplitBackbone:
    """An untrained ResNet or ResNeXt with 1000 outputs; cut points `stem`, `layer1` … `layer4`."""
    layout = LAYOUTS[name]
    block = Bottleneck if layout.bottleneck else BasicBlock
    stages: dict[str, nn.Module] = {
        "stem": nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
                bn1=nn.BatchNorm2d(64),
                relu=nn.ReLU(inplace=True),
                maxpool=nn.MaxPool2d(3, 2, padding=1),
            )
        )
    }
    channels = 64
    for number, depth in enumerate(layout.depths, start=1):
        base = 32 * 2**number
        blocks: list[nn.Module] = []
        for k in range(depth):
            blocks.append(block(channels, base, 2 if k == 0 and number > 1 else 1, layout))
            channels = base * block.expansion
        stages[f"layer{number}"] = nn.Sequential(*blocks)
    for stage in stages.values():
        _initialise(stage)
    return SplitBackbone(
        name,
        stages,
        nn.Linear(channels, 1000),
        cut=DEFAULT_CUT if cut is None else cut,
        input_size=224 if input_size is None else input_size,
        preprocessing=Preprocessing(),
    )


def resnet_source_key(key: str) -> str:
    """The name that a parameter of our network has in a torchvision weight file."""
    if key.startswith("final."):
        return key.replace("final.", "fc.")
    return key.removeprefix("stages.").removeprefix("stem.")


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def _initialise(stage: nn.Module) -> None:
    """He et al.'s initialisation, without which a deep network that is not pretrained does not start."""
    for module in stage.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
