"""Training the front's last blocks on single images, with the individual network and the cheap head."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import Gate, IndividualNetwork
from poolsieve.training.compiling import maybe_compiled
from poolsieve.training.front import stem_features
from poolsieve.training.inputs import Inputs
from poolsieve.training.learners import Batch
from poolsieve.training.models import TrainedModel
from poolsieve.training.phases import Step
from poolsieve.training.readings import read_images
from poolsieve.training.sampling import balanced_epoch, epoch_generator
from poolsieve.training.settings import TrainingSettings


class ImageFrontLearner:
    """The learning part of the front with the individual network and the gate's cheap head.

    What a pool needs of the front is that a bad image stands out early, where the gate and its head can see
    it. Both losses teach just that, and an image costs a fifth of a pool. The back is the dear part, so only
    half of a batch goes through it; the head sees all.

    Args:
        stem: The learning part of the front, a view on the backbone's modules.
        model: The networks; the counting ones are left alone.
        train: Training images, as the stem takes them.
        validation: Validation images, likewise.
        settings: The settings.
        scratch: Folder of the features of the validation images while they are judged.
    """

    def __init__(
        self,
        stem: nn.Module,
        model: TrainedModel,
        train: Inputs,
        validation: Inputs,
        settings: TrainingSettings,
        scratch: Path,
    ) -> None:
        self.name = "front"
        stem.requires_grad_(True)
        self.module: nn.Module = nn.ModuleDict(
            {"stem": stem, "individual": model.individual, "gate": model.gate}
        )
        self.epochs = settings.front_epochs
        self._train, self._validation, self._settings, self._scratch = train, validation, settings, scratch
        self._stem = maybe_compiled(stem, 2 * settings.batch_images, settings)
        self._back = maybe_compiled(model.individual.back, settings.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer and the gate."""
        individual, gate = self._parts(self.module)[1:]
        return [individual.final, gate]

    def steps(self, epoch: int) -> list[Batch]:
        """Balanced batches of twice as many images as the individual network gets."""
        order = balanced_epoch(self._train.labels, epoch_generator(self._settings.seed, self.name, epoch))
        size = 2 * self._settings.batch_images
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        return [
            Batch(part, self._train.labels[part], epoch, i) for i, part in enumerate(batches) if len(part) > 3
        ]

    def load(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs of the stem, and labels."""
        rng = epoch_generator(self._settings.seed, f"{self.name} views {batch.number}", batch.epoch)
        return self._train.draw(batch.positions, rng), torch.from_numpy(batch.counts)

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the individual network on half of the images, and of the head on all."""
        inputs, labels = loaded
        _, individual, gate = self._parts(self.module)
        optimization = self._settings.optimization
        features = self._stem(inputs)
        half = len(labels) // 2
        vectors = functional.dropout(self._back(features[:half]), optimization.dropout)
        logits = individual.final(vectors)
        loss = functional.cross_entropy(logits, labels[:half], label_smoothing=optimization.label_smoothing)
        head = functional.binary_cross_entropy_with_logits(gate(features)[1], labels.float())
        loss = loss + self._settings.head_weight * head
        return Step(loss, int((logits.argmax(1) == labels[:half]).sum()), half)

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; their mean selects."""
        stem, individual, gate = self._parts(module)
        validation = stem_features(stem, self._validation, self._scratch)
        readings = read_images(individual, gate, validation)
        margin = readings.individual[:, 1] - readings.individual[:, 0]
        individual_auc = float(roc_auc_score(validation.labels, margin))
        head_auc = float(roc_auc_score(validation.labels, readings.head))
        score = float(np.mean([individual_auc, head_auc]))
        return {"score": score, "individual_auc": individual_auc, "head_auc": head_auc}

    @staticmethod
    def _parts(module: nn.Module) -> tuple[nn.Module, IndividualNetwork, Gate]:
        parts = cast(nn.ModuleDict, module)
        return parts["stem"], cast(IndividualNetwork, parts["individual"]), cast(Gate, parts["gate"])
