"""Training a front that learns: its last blocks or all of it, jointly with every network that shares it.

Individual network, counting networks and gate must share one front, or retests could not use the features
of the pools. So the front learns from the sum of their losses in one phase and is then frozen.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import IndividualNetwork, PooledNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.training.features import require_finite
from poolsieve.training.inputs import CachedInputs, Inputs
from poolsieve.training.learners import (
    Batch,
    head_loss,
    image_aucs,
    image_loss,
    image_networks,
    pool_batches,
    pool_figures,
    validation_pools,
)
from poolsieve.training.network_outputs import read_pools
from poolsieve.training.phases import Step
from poolsieve.training.sampling import draw_pools, epoch_generator, split_by_shares
from poolsieve.training.settings import TrainingSettings

BATCH = 16


@dataclass(frozen=True)
class JointBatch:
    """Tensors of one step.

    Attributes:
        inputs: What the learning part of the front takes, place by place.  # (r * m, ...)
        counts: Bad images of each pool.  # (m,)
        labels: Labels of the images, in the order of the inputs.  # (r * m,)
        singles: Positions in the batch of the images that the individual network sees.
    """

    inputs: Tensor
    counts: Tensor
    labels: Tensor
    singles: Tensor


class FrontLearner:
    """The learning part of the front with all networks behind it.

    Args:
        stem: The learning part of the front, a view on the backbone's modules.
        model: The networks.
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
        networks = {f"counting_{size}": network for size, network in model.counting.items()}
        self.module: nn.Module = nn.ModuleDict(
            {"stem": stem, "individual": model.individual, "gate": model.gate, **networks}
        )
        self.epochs = settings.front_epochs
        self._train, self._validation, self._settings, self._scratch = train, validation, settings, scratch
        self._pools = {
            size: validation_pools(validation.labels, size, settings) for size in settings.pool_sizes
        }

    def new_layers(self) -> list[nn.Module]:
        """The final layers and the gate."""
        parts = cast(nn.ModuleDict, self.module)
        networks = [cast(PooledNetwork, parts[f"counting_{size}"]) for size in self._settings.pool_sizes]
        new = [part for network in networks for part in (network.final, network.tally) if part is not None]
        return [cast(IndividualNetwork, parts["individual"]).final, parts["gate"], *new]

    def steps(self, epoch: int) -> list[Batch]:
        """Batches of pools, the pool sizes taking turns."""
        by_size = []
        for size in self._settings.pool_sizes:
            rng = epoch_generator(self._settings.seed, f"{self.name} pools {size}", epoch)
            number = max(2, -(-self._settings.pools_per_epoch // len(self._settings.pool_sizes)))
            pools = draw_pools(
                self._train.labels, split_by_shares(number, self._settings.shares_of(size)), rng
            )
            by_size.append(pool_batches(pools, self._settings.batch_pools, epoch))
        return [batch for turn in zip(*by_size, strict=True) for batch in turn]

    def load(self, batch: Batch) -> JointBatch:
        """Inputs, counts, labels, and a balanced choice of images for the individual network."""
        pools, size = batch.positions.shape
        rng = epoch_generator(self._settings.seed, f"{self.name} views {size} {batch.number}", batch.epoch)
        positions = batch.positions.T.ravel()
        labels = self._train.labels[positions]
        bad, ordinary = (rng.permutation(np.flatnonzero(labels == label)) for label in (1, 0))
        # At most as many images as pools, so that neither loss costs more time than the other.
        number = max(1, min(len(bad), len(ordinary), pools // 2))
        singles = np.concatenate([bad[:number], ordinary[:number]])
        return JointBatch(
            self._train.draw(positions, rng),
            torch.from_numpy(batch.counts),
            torch.from_numpy(labels),
            torch.from_numpy(singles),
        )

    def loss(self, loaded: JointBatch) -> Step:
        """Cross-entropy of the counts, of single images, and of the gate's image logits, summed."""
        parts = cast(nn.ModuleDict, self.module)
        pools = len(loaded.counts)
        size = len(loaded.labels) // pools
        network = cast(PooledNetwork, parts[f"counting_{size}"])
        individual, gate = image_networks(parts)
        optimization = self._settings.optimization

        features = parts["stem"](loaded.inputs)
        opening, image_logits = gate(features)
        gated = features * opening[:, :1] if network.gate is not None else features
        vectors = network.back(gated.unflatten(0, (size, pools)).amax(dim=0))
        sums = opening[:, 1:].unflatten(0, (size, pools)).sum(dim=0)
        logits = network.read(functional.dropout(vectors, optimization.dropout), sums)
        loss = functional.cross_entropy(logits, loaded.counts, label_smoothing=optimization.label_smoothing)
        loss = loss + self._settings.head_weight * head_loss(image_logits, loaded.labels)
        if len(loaded.singles) > 1:
            alone = individual.embed(features[loaded.singles])
            loss = loss + image_loss(individual, alone, loaded.labels[loaded.singles], self._settings)[0]
        return Step(loss, int((logits.argmax(1) == loaded.counts).sum()), pools)

    def judge(self, module: nn.Module) -> dict[str, float]:
        """Weighted accuracy on validation pools, averaged over pool sizes, selects."""
        parts = cast(nn.ModuleDict, module)
        validation = stem_features(parts["stem"], self._validation, self._scratch)
        every = []
        for size in self._settings.pool_sizes:
            network = cast(PooledNetwork, parts[f"counting_{size}"])
            logits = read_pools(network, validation, self._pools[size])
            every.append(pool_figures(logits, self._pools[size], size, self._settings))
        figures = {name: float(np.mean([entry[name] for entry in every])) for name in every[0]}
        figures["individual_auc"], figures["head_auc"] = image_aucs(module, validation)
        return figures


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
        for begin in range(0, images, BATCH):
            batch = inputs.plain(np.arange(begin, min(begin + BATCH, images)))
            features: NDArray[np.float16] = stem(batch).permute(0, 2, 3, 1).contiguous().half().numpy()
            require_finite(features)
            stream.write(features.tobytes())
        stream.flush()
        mapped = np.memmap(stream, np.float16, "r", shape=(images, 1, *features.shape[1:]))
    return CachedInputs(mapped, inputs.labels)
