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
from poolsieve.training.learners import Batch
from poolsieve.training.phases import Step
from poolsieve.training.sampling import balanced_epoch, epoch_generator
from poolsieve.training.settings import GlanceSettings, TrainingSettings

BATCH = 64


class GlanceLearner:
    """Trains all layers of the glance on balanced epochs of images that are read and varied anew.

    Args:
        network: The glance.
        train: Training images.
        validation: Validation images.
        settings: The settings.
    """

    def __init__(
        self, network: GlanceNetwork, train: ImageInputs, validation: ImageInputs, settings: TrainingSettings
    ) -> None:
        self.name = "glance"
        network.requires_grad_(True)
        self.module: nn.Module = network
        self._glance = cast(GlanceSettings, settings.glance)
        self.epochs = self._glance.epochs
        self._train, self._validation, self._settings = train, validation, settings
        self._embed = maybe_compiled(_Embedding(network), self._glance.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer."""
        return [cast(GlanceNetwork, self.module).final]

    def steps(self, epoch: int) -> list[Batch]:
        """Balanced batches."""
        order = balanced_epoch(self._train.labels, epoch_generator(self._settings.seed, self.name, epoch))
        size = self._glance.batch_images
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        return [
            Batch(part, self._train.labels[part], epoch, i) for i, part in enumerate(batches) if len(part) > 1
        ]

    def load(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Images and labels."""
        rng = epoch_generator(self._settings.seed, f"{self.name} views {batch.number}", batch.epoch)
        images = self._train.draw(batch.positions, rng)
        return images.contiguous(memory_format=torch.channels_last), torch.from_numpy(batch.counts).float()

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the logit."""
        images, labels = loaded
        optimization = self._settings.optimization
        vectors = functional.dropout(self._embed(images), optimization.dropout)
        logits = cast(GlanceNetwork, self.module).judge(vectors)
        smoothing = optimization.label_smoothing
        targets = labels * (1 - smoothing) + smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(logits, targets)
        return Step(loss, int(((logits > 0) == (labels > 0.5)).sum()), len(labels))

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
