"""Teaches a glance what a bundle's individual network says of whole images.

Labels say of a training image only that it is bad. The individual network says how bad this view of it looks,
and it is this network that the glance has to agree with: an image that the glance clears is lost only if the
individual network would have flagged it. (Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural
Network", 2015.)
"""

from __future__ import annotations

from typing import cast

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.bundles import Bundle
from poolsieve.bundles.config import GLANCE_GRAPH
from poolsieve.engines import Engine
from poolsieve.networks import GlanceNetwork, SplitBackbone
from poolsieve.statistics import auc
from poolsieve.training.image_learners import BalancedLearner, maybe_compiled
from poolsieve.training.inputs import ImageInputs
from poolsieve.training.network_outputs import glance_logits
from poolsieve.training.phases import Step
from poolsieve.training.sampling import Batch
from poolsieve.training.settings import GlanceSettings, TrainingSettings

TEMPERATURE = 2.0
"""Divides logits, so that the teacher's certainty about easy images does not drown what it says of others."""
LABEL_SHARE = 0.3
"""Share of the loss that goes by labels."""
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

    def load(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Images, the teacher's logits of the same views, and labels."""
        pixels, labels = blended(
            self._images.draw_pixels(batch.positions, batch.rng), batch.counts.astype(np.float32), batch.rng
        )
        logits = self._teacher.individual(self._teacher.front(pixels).features).logits
        taught = torch.from_numpy(np.subtract(logits[:, 1], logits[:, 0]))
        return self._images.normalised(pixels), taught, torch.from_numpy(labels)

    def loss(self, loaded: tuple[Tensor, Tensor, Tensor]) -> Step:
        """Cross-entropy with what the teacher says, softened, and with the labels."""
        images, taught, labels = loaded
        vectors = functional.dropout(self._embed(images), self._settings.optimization.dropout)
        logits = cast(GlanceNetwork, self.module).judge(vectors)
        softened = functional.binary_cross_entropy_with_logits(
            logits / TEMPERATURE, torch.sigmoid(taught / TEMPERATURE)
        )
        labelled = functional.binary_cross_entropy_with_logits(logits, labels)
        loss = (1 - LABEL_SHARE) * TEMPERATURE * softened + LABEL_SHARE * labelled
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
