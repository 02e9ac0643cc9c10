"""A small network on one image's front features: how much of each location to let through, and a prior."""

from __future__ import annotations

import torch
from torch import Tensor, nn

TALLIED = (-2.0, 0.0, 2.0)
"""Log-odds at which an image counts half in a tally."""


class Gate(nn.Module):
    """Gates an image's front features before they are merged, and tells how bad the image looks.

    A plain maximum over r images buries the one that matters under the clean ones. The gate looks at each
    image alone and gives a number in (0, 1) per location, by which the features are multiplied before the
    maximum; a clean image then hardly disturbs its pools. Its image logit is the cheap head: a prior for
    each image. Both are trained together with the count. It costs about 1% of the network.

    The features are first narrowed. Two depth-wise separable layers at full size say what is where; a third
    at half the size, pooled by mean and maximum, judges the whole image. A location's gate combines its own
    evidence with the judgement of the image. There is no step that depends on data, so it can be exported.

    A maximum cannot count: two bad images in one place look like one. With `tallies` the gate has further
    maps beside the opening, all over the image σ(logit − t) for some t. Merging adds them up, and the
    counting network so hears from the gate how many images of the pool look bad.

    Args:
        channels: Channels C of the front features.
        width: Channels of the narrowed features; the cost is nearly proportional to it.
        tallies: Give the further maps.
    """

    thresholds: Tensor

    def __init__(self, channels: int, width: int = 64, *, tallies: bool = False) -> None:
        super().__init__()
        if channels < 1 or width < 1:
            raise ValueError(f"channels and width are positive; got {channels} and {width}")
        self.channels, self.width = channels, width
        self.tallies = len(TALLIED) if tallies else 0
        self.register_buffer("thresholds", torch.tensor(TALLIED), persistent=False)
        self.narrow = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.local = _Separable(width, width)
        self.wide_view = _Separable(width, width, dilation=2)
        self.whole = _Separable(width, 2 * width, stride=2)
        self.location = nn.Conv2d(width, 1, 1)
        self.judge = nn.Linear(4 * width, 1)
        self.trust = nn.Parameter(torch.ones(()))
        nn.init.constant_(self.location.bias, 2.0)  # type: ignore[arg-type]  # starts nearly open

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Gate and judge every image.

        Args:
            features: Front features.  # (N, C, H, W)

        Returns:
            The gate, between 0 and 1, and below it what is tallied, K = 3 maps or none  # (N, 1 + K, H, W)
            and the logit that the image is bad.  # (N,)
        """
        narrow = self.narrow(features)
        trunk = narrow + self.local(narrow)
        trunk = trunk + self.wide_view(trunk)
        whole = self.whole(trunk)
        pooled = torch.cat([whole.mean(dim=(2, 3)), whole.amax(dim=(2, 3))], dim=1)
        logit = self.judge(pooled)  # (N, 1)
        gate = torch.sigmoid(self.location(trunk) + self.trust * logit[:, :, None, None])
        if self.tallies:
            looks_bad = torch.sigmoid(logit - self.thresholds)[:, :, None, None]  # (N, K, 1, 1)
            gate = torch.cat([gate, looks_bad.expand(-1, -1, *gate.shape[2:])], dim=1)
        return gate, logit[:, 0]


class _Separable(nn.Sequential):
    """A depth-wise 3×3 convolution and a 1×1 convolution, each normalised."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation=dilation, groups=inputs, bias=False),
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )
