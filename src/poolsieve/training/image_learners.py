"""What learns from single images, as things that `run_phase` can train.

These are the individual network with the cheap head, a front together with them, and the glance.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import Gate, GlanceNetwork, IndividualNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.statistics import auc
from poolsieve.training.extractors import require_finite
from poolsieve.training.inputs import CachedInputs, ImageInputs, Inputs
from poolsieve.training.network_outputs import glance_logits, read_images
from poolsieve.training.phases import Step
from poolsieve.training.sampling import Batch, balanced_batches
from poolsieve.training.settings import GlanceSettings, TrainingSettings
from poolsieve.training.teaching import taught_loss

STEM_BATCH = 16
Loaded = tuple[Tensor, Tensor, Tensor | None]
"""Inputs, labels, and the teacher's logits if there is one.  # (n, C, H, W), (n,), (n,)"""


class BalancedLearner:
    """What learners of single images share: balanced epochs, and a random view of each image.

    Args:
        name: What is trained.
        train: Training images.
        batch: Images in a step.
        settings: The settings.
        least: The smallest batch that is worth a step; batch norm needs two images.
    """

    def __init__(
        self, name: str, train: Inputs, batch: int, settings: TrainingSettings, *, least: int = 2
    ) -> None:
        self.name = name
        self._train, self._batch, self._settings, self._least = train, batch, settings, least

    def steps(self, epoch: int) -> list[Batch]:
        """Balanced batches."""
        batches = balanced_batches(self._train.labels, self._batch, self._settings, self.name, epoch)
        return [batch for batch in batches if len(batch.counts) >= self._least]

    def load(self, batch: Batch) -> Loaded:
        """Inputs, labels and what the teacher says."""
        inputs, taught = self._train.draw_taught(batch.positions, batch.rng)
        return inputs, torch.from_numpy(batch.counts), taught


class IndividualLearner(BalancedLearner):
    """Trains the individual network, and the gate's image logit beside it.

    The gate so learns what the bad images look like before pools ask it where. With `learn_gate` false it
    stays as it is, which it must where counting networks have learnt with it already.
    """

    def __init__(
        self,
        model: TrainedModel,
        train: CachedInputs,
        validation: CachedInputs,
        settings: TrainingSettings,
        *,
        learn_gate: bool = True,
    ) -> None:
        super().__init__("individual", train, settings.batch_images, settings)
        self.module: nn.Module = nn.ModuleDict({"individual": model.individual, "gate": model.gate})
        self.epochs = settings.individual_epochs
        self._learn_gate, self._validation = learn_gate, validation
        model.gate.requires_grad_(learn_gate)
        self._back = maybe_compiled(model.individual.back, settings.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer and the gate."""
        individual, gate = image_networks(self.module)
        return [individual.final, gate]

    def loss(self, loaded: Loaded) -> Step:
        """Cross-entropy of the individual network, and of the head."""
        features, labels, taught = loaded
        individual, gate = image_networks(self.module)
        loss, correct = image_loss(individual, self._back(features), labels, taught, self._settings)
        if self._learn_gate:
            loss = loss + self._settings.head_weight * head_loss(gate(features)[1], labels, taught)
        return Step(loss, correct, len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; the network's AUC selects."""
        score, head_auc = image_aucs(module, self._validation)
        return {"score": score, "head_auc": head_auc}


class ImageFrontLearner(BalancedLearner):
    """The learning part of the front with the individual network and the gate's cheap head.

    What a pool needs of the front is that a bad image stands out early, where the gate and its head can see
    it. Both losses teach just that, and an image costs a fifth of a pool. The back is the dear part, so only
    half of a batch goes through it; the head sees all. The counting networks are left alone. See
    `PoolFrontLearner` for what it takes.
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
        parts = {"stem": stem, "individual": model.individual, "gate": model.gate}
        self.module: nn.Module = nn.ModuleDict(parts)
        self.epochs = settings.front_epochs
        self._validation, self._scratch = validation, scratch
        self._stem = maybe_compiled(stem, 2 * settings.batch_images, settings)
        self._back = maybe_compiled(model.individual.back, settings.batch_images, settings)

    new_layers = IndividualLearner.new_layers

    def loss(self, loaded: Loaded) -> Step:
        """Cross-entropy of the individual network on half of the images, and of the head on all."""
        inputs, labels, taught = loaded
        individual, gate = image_networks(self.module)
        features = self._stem(inputs)
        half = len(labels) // 2
        first = None if taught is None else taught[:half]
        vectors = self._back(features[:half])
        loss, correct = image_loss(individual, vectors, labels[:half], first, self._settings)
        loss = loss + self._settings.head_weight * head_loss(gate(features)[1], labels, taught)
        return Step(loss, correct, half)

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; their mean selects."""
        stem = cast(nn.ModuleDict, module)["stem"]
        aucs = image_aucs(module, stem_features(stem, self._validation, self._scratch))
        return {"score": float(np.mean(aucs)), "individual_auc": aucs[0], "head_auc": aucs[1]}


class GlanceLearner(BalancedLearner):
    """Trains all layers of the glance on images that are read and varied anew."""

    def __init__(
        self, network: GlanceNetwork, train: ImageInputs, validation: ImageInputs, settings: TrainingSettings
    ) -> None:
        glance = cast(GlanceSettings, settings.glance)
        super().__init__("glance", train, glance.batch_images, settings)
        self.module: nn.Module = network.requires_grad_(True)  # copied from a backbone that is frozen
        self.epochs = glance.epochs
        self._validation = validation
        self._embed = maybe_compiled(network.embed, glance.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer."""
        return [cast(GlanceNetwork, self.module).final]

    def loss(self, loaded: Loaded) -> Step:
        """Cross-entropy of the logit."""
        images, labels, taught = loaded
        optimization = self._settings.optimization
        vectors = functional.dropout(self._embed(images), optimization.dropout)
        logits = cast(GlanceNetwork, self.module).judge(vectors)
        smoothing = optimization.label_smoothing
        targets = labels.float() * (1 - smoothing) + smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(logits, targets)
        if taught is not None:
            loss = taught_loss(logits, taught, loss)
        return Step(loss, int(((logits > 0) == (labels == 1)).sum()), len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """The AUC on validation images selects."""
        logits = glance_logits(cast(GlanceNetwork, module), self._validation)
        return {"score": auc(logits, self._validation.labels)}


def maybe_compiled(
    part: Callable[[Tensor], Tensor], rows: int, settings: TrainingSettings
) -> Callable[[Tensor], Tensor]:
    """A part of a network itself or, where the settings ask for it, compiled for inputs of `rows` rows.

    Inputs of other sizes, such as the last batch of an epoch, go through the part itself: compiling for them
    too would take longer than it saves.
    """
    if not settings.compile:
        return part
    compiled = torch.compile(part, dynamic=False)
    return lambda inputs: compiled(inputs) if len(inputs) == rows else part(inputs)


def image_networks(module: nn.Module) -> tuple[IndividualNetwork, Gate]:
    """The networks for single images among those that learn together."""
    parts = cast(nn.ModuleDict, module)
    return cast(IndividualNetwork, parts["individual"]), cast(Gate, parts["gate"])


def image_loss(
    individual: IndividualNetwork,
    vectors: Tensor,
    labels: Tensor,
    taught: Tensor | None,
    settings: TrainingSettings,
) -> tuple[Tensor, int]:
    """Cross-entropy of the individual network, and how many images it judges rightly.

    Args:
        individual: Its final layer is applied.
        vectors: What its back gives.  # (n, F)
        labels: Labels of the images.  # (n,)
        taught: The teacher's logits.  # (n,)
        settings: The settings.
    """
    optimization = settings.optimization
    logits = individual.final(functional.dropout(vectors, optimization.dropout))
    loss = functional.cross_entropy(logits, labels, label_smoothing=optimization.label_smoothing)
    if taught is not None:
        loss = taught_loss(logits[:, 1] - logits[:, 0], taught, loss)
    return loss, int((logits.argmax(1) == labels).sum())


def head_loss(logits: Tensor, labels: Tensor, taught: Tensor | None = None) -> Tensor:
    """Cross-entropy of the cheap head's logits.  # (n,) each."""
    loss = functional.binary_cross_entropy_with_logits(logits, labels.float())
    return loss if taught is None else taught_loss(logits, taught, loss)


def image_aucs(module: nn.Module, inputs: CachedInputs) -> tuple[float, float]:
    """AUC of the individual network and of the cheap head on images, plain views."""
    outputs = read_images(*image_networks(module), inputs)
    return auc(outputs.margin, inputs.labels), auc(outputs.head, inputs.labels)


@torch.inference_mode()
def stem_features(stem: nn.Module, inputs: Inputs, scratch: Path) -> CachedInputs:
    """Front features of the plain views of a whole split, in a file that is gone when they are.

    Args:
        stem: The learning part of the front.
        inputs: What it takes.
        scratch: Folder of that file; a split may be larger than memory.
    """
    stem.eval()
    scratch.mkdir(parents=True, exist_ok=True)
    images = len(inputs.labels)
    with tempfile.TemporaryFile(dir=scratch) as stream:
        for begin in range(0, images, STEM_BATCH):
            batch = inputs.plain(np.arange(begin, min(begin + STEM_BATCH, images)))
            features: NDArray[np.float16] = stem(batch).permute(0, 2, 3, 1).contiguous().half().numpy()
            require_finite(features)
            stream.write(features.tobytes())
        stream.flush()
        mapped = np.memmap(stream, np.float16, "r", shape=(images, 1, *features.shape[1:]))
    return CachedInputs(mapped, inputs.labels)
