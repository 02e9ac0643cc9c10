"""A small network that glances at a shrunken image, before anything else is computed of it."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks.backbone import SplitBackbone


class GlanceNetwork(nn.Module):
    """Tells from an image of a fraction of the size how bad it looks; images that look clear are done.

    It shares nothing with the other networks, so it may be trained for small images from its first layer on.
    What is small costs little: at half the height and width a quarter of the multiply-adds. Shrinking is part
    of the network, so that it takes the same pixels as the front.

    Args:
        backbone: Its first stages are copied with the weights that they have.
        shrink: How many times smaller height and width become; whole, and a divisor of the input size.
        stop: The copy ends after this cut point; None copies the whole backbone. The last stages tell a
            thousand classes apart and are the largest part of the file.
    """

    def __init__(self, backbone: SplitBackbone, shrink: int = 2, stop: str | None = None) -> None:
        super().__init__()
        if shrink < 1 or backbone.input_size % shrink:
            raise ValueError(
                f"shrink is {shrink}, but must divide the {backbone.input_size} pixels that "
                f"{backbone.name} takes"
            )
        self.shrink, self.stop = shrink, stop
        self.body = copy.deepcopy(backbone.segment(None, stop))
        width = backbone.feature_width if stop is None else backbone.stage_shapes[stop][0]
        self.final = nn.Linear(width, 1)
        self._require_room(backbone.input_size)

    def _require_room(self, input_size: int) -> None:
        training = self.training
        try:
            with torch.no_grad():
                self.eval()(torch.zeros(1, 3, input_size, input_size))  # shapes alone would not complain
        except RuntimeError as error:
            raise ValueError(
                f"images of {input_size // self.shrink} pixels are too small for a glance; give a smaller "
                f"shrink or an earlier stop ({error})"
            ) from error
        self.train(training)

    def forward(self, images: Tensor) -> Tensor:
        """The logit that each image is bad.  # (N, 3, S, S) -> (N,)."""
        return self.judge(self.embed(images))

    def embed(self, images: Tensor) -> Tensor:
        """The vector before the final layer.  # (N, 3, S, S) -> (N, F)."""
        features = self.body(functional.avg_pool2d(images, self.shrink))
        vectors: Tensor = features if self.stop is None else features.mean(dim=(2, 3))
        return vectors

    def judge(self, vectors: Tensor) -> Tensor:
        """The logit that an image with this vector is bad.  # (N, F) -> (N,)."""
        logits: Tensor = self.final(vectors)[:, 0]
        return logits
