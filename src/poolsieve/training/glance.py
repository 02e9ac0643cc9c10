"""Training the glance: a small network for a first look at shrunken images."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import GlanceNetwork
from poolsieve.training.compiling import maybe_compiled
from poolsieve.training.inputs import ImageInputs, Inputs
from poolsieve.training.learners import BalancedLearner
from poolsieve.training.phases import Step
from poolsieve.training.settings import GlanceSettings, TrainingSettings

BATCH = 64


class GlanceLearner(BalancedLearner):
    """Trains all layers of the glance on balanced epochs of images that are read and varied anew.

    Args:
        network: The glance.
        train: Training images.
        validation: Validation images.
        settings: The settings.
    """

    def __init__(
        self,
        network: GlanceNetwork,
        train: ImageInputs,
        validation: ImageInputs,
        settings: TrainingSettings,
    ) -> None:
        glance = cast(GlanceSettings, settings.glance)
        super().__init__("glance", train, glance.batch_images, settings)
        self.module: nn.Module = network.requires_grad_(True)  # copied from a backbone that is frozen
        self.epochs = glance.epochs
        self._validation = validation
        self._embed = maybe_compiled(_Embedding(network), glance.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer."""
        return [cast(GlanceNetwork, self.module).final]

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the logit."""
        images, labels = loaded
        optimization = self._settings.optimization
        vectors = functional.dropout(self._embed(images), optimization.dropout)
        logits = cast(GlanceNetwork, self.module).judge(vectors)
        smoothing = optimization.label_smoothing
        targets = labels.float() * (1 - smoothing) + smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(logits, targets)
        return Step(loss, int(((logits > 0) == (labels == 1)).sum()), len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """The AUC on validation images selects."""
        logits = glance_logits(cast(GlanceNetwork, module), self._validation)
        return {"score": float(roc_auc_score(self._validation.labels, logits))}


class _Embedding(nn.Module):
    """The glance without its final layer, to be compiled."""

    def __init__(self, network: GlanceNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.embed(images)


@torch.inference_mode()
def glance_logits(network: GlanceNetwork, inputs: Inputs) -> NDArray[np.float32]:
    """How bad the plain view of each image of a split looks at a glance. Shape (images,)."""
    network.eval()
    images = len(inputs.labels)
    parts = [
        network(inputs.plain(np.arange(begin, min(begin + BATCH, images)))).numpy()
        for begin in range(0, images, BATCH)
    ]
    return np.concatenate(parts)
