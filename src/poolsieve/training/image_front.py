"""Training the front's last blocks on single images, with the individual network and the cheap head."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor, nn

from poolsieve.networks.trained import TrainedModel
from poolsieve.training.compiling import maybe_compiled
from poolsieve.training.front import stem_features
from poolsieve.training.inputs import Inputs
from poolsieve.training.learners import BalancedLearner, head_loss, image_aucs, image_loss, image_networks
from poolsieve.training.phases import Step
from poolsieve.training.settings import TrainingSettings


class ImageFrontLearner(BalancedLearner):
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
        super().__init__("front", train, 2 * settings.batch_images, settings, least=4)
        stem.requires_grad_(True)
        self.module: nn.Module = nn.ModuleDict(
            {"stem": stem, "individual": model.individual, "gate": model.gate}
        )
        self.epochs = settings.front_epochs
        self._validation, self._scratch = validation, scratch
        self._stem = maybe_compiled(stem, 2 * settings.batch_images, settings)
        self._back = maybe_compiled(model.individual.back, settings.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer and the gate."""
        individual, gate = image_networks(self.module)
        return [individual.final, gate]

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the individual network on half of the images, and of the head on all."""
        inputs, labels = loaded
        individual, gate = image_networks(self.module)
        features = self._stem(inputs)
        half = len(labels) // 2
        loss, correct = image_loss(individual, self._back(features[:half]), labels[:half], self._settings)
        loss = loss + self._settings.head_weight * head_loss(gate(features)[1], labels)
        return Step(loss, correct, half)

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; their mean selects."""
        stem = cast(nn.ModuleDict, module)["stem"]
        aucs = image_aucs(module, stem_features(stem, self._validation, self._scratch))
        return {"score": float(np.mean(aucs)), "individual_auc": aucs[0], "head_auc": aucs[1]}
