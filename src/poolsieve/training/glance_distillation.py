"""Teaches the glance of a bundle what its individual network says of whole images."""

from __future__ import annotations

from typing import cast

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import nn
from torch.nn import functional

from poolsieve.bundles import Bundle
from poolsieve.bundles.config import GLANCE_GRAPH
from poolsieve.engines import Engine
from poolsieve.networks import GlanceNetwork, SplitBackbone
from poolsieve.statistics import auc
from poolsieve.training.image_learners import BalancedLearner, Loaded, maybe_compiled
from poolsieve.training.inputs import ImageInputs
from poolsieve.training.network_outputs import glance_logits
from poolsieve.training.phases import Step
from poolsieve.training.sampling import Batch
from poolsieve.training.settings import GlanceSettings, TrainingSettings
from poolsieve.training.teaching import taught_logits, taught_loss

MIXED_SHARE = 0.5
"""Share of images that are blended with another one before teacher and glance see them: images without end,
which the teacher has not learnt by heart. (Beyer et al., "Knowledge Distillation: A Good Teacher Is Patient
and Consistent", CVPR 2022.)"""


class DistillingLearner(BalancedLearner):
    """Trains all layers of a glance on views that the individual network judges beside it.

    Args:
        network: The glance.
        teacher: Runs the bundle whose individual network teaches.
        train: Training images.
        validation: Validation images.
        settings: The settings; their `glance` says for how long.
    """

    def __init__(
        self,
        network: GlanceNetwork,
        teacher: Engine,
        train: ImageInputs,
        validation: ImageInputs,
        settings: TrainingSettings,
    ) -> None:
        glance = cast(GlanceSettings, settings.glance)
        super().__init__("glance", train, glance.batch_images, settings)
        self.module: nn.Module = network.requires_grad_(True)
        self.epochs = glance.epochs
        self._images, self._teacher, self._validation = train, teacher, validation
        self._embed = maybe_compiled(network.embed, glance.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """None: the glance knows its task."""
        return []

    def load(self, batch: Batch) -> Loaded:
        """Images, labels and the teacher's logits of the same views."""
        pixels, labels = blended(
            self._images.draw_pixels(batch.positions, batch.rng), batch.counts.astype(np.float32), batch.rng
        )
        taught = torch.from_numpy(taught_logits(self._teacher, pixels))
        return self._images.normalised(pixels), torch.from_numpy(labels), taught

    def loss(self, loaded: Loaded) -> Step:
        """Cross-entropy with what the teacher says, softened, and with the labels."""
        images, labels, taught = loaded
        assert taught is not None
        vectors = functional.dropout(self._embed(images), self._settings.optimization.dropout)
        logits = cast(GlanceNetwork, self.module).judge(vectors)
        labelled = functional.binary_cross_entropy_with_logits(logits, labels)
        loss = taught_loss(logits, taught, labelled)
        return Step(loss, int(((logits > 0) == (labels > 0.5)).sum()), len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """The AUC on validation images selects."""
        logits = glance_logits(cast(GlanceNetwork, module), self._validation)
        return {"score": auc(logits, self._validation.labels)}


def blended(
    pixels: NDArray[np.uint8], labels: NDArray[np.float32], rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Some images blended with another one of the batch, and the labels with them (mixup).

    Args:
        pixels: The images.  # (n, S, S, 3)
        labels: Their labels.  # (n,)
        rng: Draws which, with which, and how much.
    """
    others = rng.permutation(len(pixels))
    weights = np.where(rng.random(len(pixels)) < MIXED_SHARE, rng.random(len(pixels)), 1).astype(np.float32)
    share = weights[:, None, None, None]
    mixed = np.rint(share * pixels + (1 - share) * pixels[others]).astype(np.uint8)
    return mixed, weights * labels + (1 - weights) * labels[others]


def glance_of_bundle(bundle: Bundle, backbone: SplitBackbone) -> GlanceNetwork:
    """The glance of a bundle as a network that can learn, with the weights of its graph.

    Args:
        bundle: Has a glance.
        backbone: The bundle's; gives the layers, not the weights.

    Raises:
        ValueError: The bundle has no glance, or its graph is not one that poolsieve exported.
    """
    record = bundle.config.glance
    if record is None:
        raise ValueError(f"{bundle.path} has no glance to go on with; train with --glance")
    network = GlanceNetwork(backbone, record.shrink, record.stop)
    graph = onnx.load_model_from_string(bundle.read(GLANCE_GRAPH)).graph
    stored = {
        tensor.name.removeprefix("front.").removesuffix(".fp16"): numpy_helper.to_array(tensor)
        for tensor in graph.initializer
    }
    own = network.state_dict()
    for name, value in own.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name not in stored or stored[name].shape != tuple(value.shape):
            raise ValueError(
                f"{bundle.path / GLANCE_GRAPH}: has no weights {name} of shape {tuple(value.shape)}; only "
                "graphs that poolsieve exported can be trained on"
            )
        own[name] = torch.from_numpy(stored[name].astype(np.float32))
    network.load_state_dict(own)
    return network
