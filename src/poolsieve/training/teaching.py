"""Learning from what a bundle's individual network says of the same views, beside their labels.

Labels say of a training image only that it is bad. A teacher says how bad this view of it looks. A network
that looks first has to agree with it: an image that it clears is lost only if the individual network would
have flagged it. (Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015.)
"""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from poolsieve.bundles import load_bundle
from poolsieve.engines import Engine, open_engine

TEMPERATURE = 2.0
"""Divides logits, so that the teacher's certainty about easy images does not drown what it says of others."""
LABEL_SHARE = 0.3
"""Share of the loss that goes by labels."""


class Teacher:
    """The individual network of a bundle, which judges what others learn from.

    Args:
        path_or_name: The bundle.

    Raises:
        ValueError: Its individual network gives no logits to learn from.
    """

    def __init__(self, path_or_name: str | os.PathLike[str]) -> None:
        bundle = load_bundle(path_or_name)
        if bundle.config.kind != "classification":
            raise ValueError(
                f"{bundle.path} finds off-topic images, whose individual network gives no such logits"
            )
        self.bundle = bundle

    def check(self, input_size: int, resize_mode: str | None) -> None:
        """Raise ValueError unless it takes images as those that learn do."""
        config = self.bundle.config
        if (config.input_size, config.resize_mode) != (input_size, resize_mode):
            raise ValueError(
                f"{self.bundle.path} takes images of {config.input_size} pixels ({config.resize_mode}), but "
                f"what it is to teach takes {input_size} ({resize_mode}); train both alike "
                "(--stretch, --pad, --input-size)"
            )

    @cached_property
    def _engine(self) -> Engine:
        return open_engine(self.bundle)

    def logits(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """How bad images look.  # (n, S, S, 3) -> (n,)."""
        seen = pixels if self.bundle.config.joined else self._engine.front(pixels).features
        logits = self._engine.individual(seen).logits
        margins: NDArray[np.float32] = np.subtract(logits[:, 1], logits[:, 0])
        return margins


def taught_loss(logits: Tensor, taught: Tensor, labelled: Tensor) -> Tensor:
    """Cross-entropy with what the teacher says, softened, beside the loss by labels.

    Args:
        logits: How bad the images look to the one that learns.  # (n,)
        taught: How bad they look to the teacher.  # (n,)
        labelled: Its loss by labels.
    """
    softened = functional.binary_cross_entropy_with_logits(
        logits / TEMPERATURE, torch.sigmoid(taught / TEMPERATURE)
    )
    return (1 - LABEL_SHARE) * TEMPERATURE * softened + LABEL_SHARE * labelled
