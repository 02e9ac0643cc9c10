"""What learns from pools, as things that `run_phase` can train: a counting network, and a front with all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import PooledNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.training.gated_maximum import merge_disjoint
from poolsieve.training.image_learners import (
    head_loss,
    image_aucs,
    image_loss,
    image_networks,
    maybe_compiled,
    stem_features,
)
from poolsieve.training.inputs import CachedInputs, FreshInputs, Inputs
from poolsieve.training.network_outputs import auc_of_one, badness, read_pools
from poolsieve.training.phases import Step
from poolsieve.training.sampling import (
    Batch,
    pool_batches,
    seeded_pools,
    weighted_accuracy,
    weighted_likelihood,
    weighted_mean,
)
from poolsieve.training.settings import TrainingSettings


@dataclass(frozen=True)
class LoadedPools:
    """Pools of one size, as a step takes them.

    Attributes:
        size: Images r in a pool.
        features: Front features, or what the learning part of the front takes, place by place.
            # (r * m, C, H, W)
        counts: Bad images of each pool.  # (m,)
        labels: Labels of the images, in the order of the features.  # (r * m,)
        singles: Positions in the features of the images that the individual network sees, if it learns too.
    """

    size: int
    features: Tensor
    counts: Tensor
    labels: Tensor
    singles: Tensor


class CountingLearner:
    """Trains a counting network on random pools; its gate learns too unless it is frozen.

    A network that serves several pool sizes sees equally many pools of each in every step: batch
    normalisation then learns the mixture that it will be used with, not one size at a time.
    """

    def __init__(
        self,
        network: PooledNetwork,
        train: CachedInputs | FreshInputs,
        validation: CachedInputs,
        settings: TrainingSettings,
        *,
        sizes: Sequence[int] | None = None,
        learn_gate: bool = True,
    ) -> None:
        self._sizes = sorted(sizes or [network.pool_size])
        self.name = "-".join(["counting", *map(str, self._sizes)])
        self.module: nn.Module = network
        self.epochs = settings.epochs
        self._train, self._validation, self._settings = train, validation, settings
        self._learn_gate = learn_gate and network.gate is not None
        if network.gate is not None:
            network.gate.requires_grad_(learn_gate)
        self._batch = max(2, settings.batch_pools // len(self._sizes))  # pools of one size in a step
        self._back = maybe_compiled(network.back, self._batch * len(self._sizes), settings)
        smoothing = settings.count_smoothing
        self._targets = {
            size: torch.from_numpy(count_targets(size, smoothing)).float() for size in self._sizes
        }

    def new_layers(self) -> list[nn.Module]:
        """The final layer, and a gate that learns."""
        network = cast(PooledNetwork, self.module)
        return [part for part in (network.final, network.tally, network.gate) if part is not None]

    def steps(self, epoch: int) -> list[tuple[Batch, ...]]:
        """Batches of pools, drawn anew, one of each size in a step."""
        self._train.begin(epoch)
        return pool_batches(self._train.labels, self._sizes, self._batch, self._settings, self.name, epoch)

    def load(self, batches: Sequence[Batch]) -> list[LoadedPools]:
        """The pools of a step, size by size."""
        return [load_pools(batch, self._train, singles=0) for batch in batches]

    def loss(self, loaded: Sequence[LoadedPools]) -> Step:
        """Cross-entropy of the count, and of the image logits of a gate that learns; means over sizes."""
        network = cast(PooledNetwork, self.module)
        if network.gate is not None and not self._learn_gate:
            network.gate.eval()
        optimization = self._settings.optimization
        merged, sums, image_logits = zip(
            *(merge_disjoint(network, pools.features, pools.size) for pools in loaded), strict=True
        )
        vectors = functional.dropout(self._back(torch.cat(merged)), optimization.dropout)
        tallied = None if sums[0] is None else torch.cat(sums)
        every = network.read(vectors, tallied).split([len(pools.counts) for pools in loaded])
        losses, heads, correct = [], [], 0
        for pools, outputs, opinions in zip(loaded, every, image_logits, strict=True):
            if self._settings.readings == "binary":
                logits, counts = outputs[:, :2], pools.counts.clamp(max=1)
                targets = counts
            else:
                logits, counts = outputs[:, : pools.size + 1], pools.counts
                targets = self._targets[pools.size][counts]
            losses.append(
                functional.cross_entropy(logits, targets, label_smoothing=optimization.label_smoothing)
            )
            correct += int((logits.argmax(1) == counts).sum())
            if self._learn_gate and opinions is not None:
                heads.append(head_loss(opinions, pools.labels))
        loss = torch.stack(losses).mean()
        if heads:
            loss = loss + self._settings.head_weight * torch.stack(heads).mean()
        return Step(loss, correct, len(vectors))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """Accuracy on the fixed validation pools; the one weighted with Binom(r, p, k) selects.

        Figures of several sizes: the score is their mean, the others are those of the largest pools, and of
        smaller ones with their size at the end of the name.
        """
        network = cast(PooledNetwork, module)
        *smaller, largest = [
            pool_figures(network.for_pools_of(size), self._validation, self._settings) for size in self._sizes
        ]
        score = float(np.mean([figures["score"] for figures in (*smaller, largest)]))
        every = {**largest, "score": score}
        for size, figures in zip(self._sizes, smaller, strict=False):
            every |= {f"{name}_{size}": value for name, value in figures.items() if name != "score"}
        return every


class PoolFrontLearner:
    """The learning part of the front with all networks behind it.

    Individual network, counting networks and gate must share one front, or retests could not use the
    features of the pools. So the front learns from the sum of their losses in one phase and is then frozen.

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
        parts = {"stem": stem, "individual": model.individual, "gate": model.gate}
        counting = {f"counting_{size}": network for size, network in model.counting.items()}
        self.module: nn.Module = nn.ModuleDict({**parts, **counting})
        self.epochs = settings.front_epochs
        self._train, self._validation, self._settings, self._scratch = train, validation, settings, scratch

    def _counting(self, module: nn.Module) -> dict[int, PooledNetwork]:
        parts, sizes = cast(nn.ModuleDict, module), self._settings.pool_sizes
        return {size: cast(PooledNetwork, parts[f"counting_{size}"]) for size in sizes}

    def new_layers(self) -> list[nn.Module]:
        """The final layers and the gate."""
        individual, gate = image_networks(self.module)
        networks = self._counting(self.module).values()
        new = [part for network in networks for part in (network.final, network.tally) if part is not None]
        return [individual.final, gate, *new]

    def steps(self, epoch: int) -> list[Batch]:
        """Batches of pools, the pool sizes taking turns."""
        settings = self._settings
        turns = pool_batches(
            self._train.labels, settings.pool_sizes, settings.batch_pools, settings, self.name, epoch
        )
        return [batch for turn in turns for batch in turn]

    def load(self, batch: Batch) -> LoadedPools:
        """Pools of one size, and a balanced choice of images for the individual network.

        At most as many images as pools, so that neither loss costs more time than the other.
        """
        return load_pools(batch, self._train, singles=len(batch.counts) // 2)

    def loss(self, loaded: LoadedPools) -> Step:
        """Cross-entropy of the counts, of single images, and of the gate's image logits, summed."""
        network = self._counting(self.module)[loaded.size]
        individual, gate = image_networks(self.module)
        optimization, apart = self._settings.optimization, (loaded.size, len(loaded.counts))

        features = cast(nn.ModuleDict, self.module)["stem"](loaded.features)
        opening, image_logits = gate(features)
        gated = features * opening[:, :1] if network.gate is not None else features
        vectors = network.back(network.merge_places(gated.unflatten(0, apart)))
        sums = opening[:, 1:].unflatten(0, apart).sum(dim=0)
        logits = network.read(functional.dropout(vectors, optimization.dropout), sums)
        counts = loaded.counts
        if self._settings.readings == "binary":
            logits, counts = logits[:, :2], counts.clamp(max=1)
        loss = functional.cross_entropy(logits, counts, label_smoothing=optimization.label_smoothing)
        loss = loss + self._settings.head_weight * head_loss(image_logits, loaded.labels)
        if len(loaded.singles) > 1:
            alone = individual.embed(features[loaded.singles])
            loss = (
                loss + image_loss(individual, alone, loaded.labels[loaded.singles], None, self._settings)[0]
            )
        return Step(loss, int((logits.argmax(1) == counts).sum()), len(counts))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """Weighted accuracy on validation pools, averaged over pool sizes, selects."""
        stem = cast(nn.ModuleDict, module)["stem"]
        validation = stem_features(stem, self._validation, self._scratch)
        networks = self._counting(module).values()
        every = [pool_figures(network, validation, self._settings) for network in networks]
        figures = {name: float(np.mean([entry[name] for entry in every])) for name in every[0]}
        figures["individual_auc"], figures["head_auc"] = image_aucs(module, validation)
        return figures


def load_pools(batch: Batch, inputs: Inputs | FreshInputs, *, singles: int) -> LoadedPools:
    """Random views of the images of pools.

    Args:
        batch: The pools.
        inputs: Their images.
        singles: Images of each class that the individual network sees at most; 0 for none.
    """
    positions = batch.positions.T.ravel()
    labels, alone = inputs.labels[positions], np.empty(0, dtype=np.int64)
    if singles:
        bad, ordinary = (batch.rng.permutation(np.flatnonzero(labels == label)) for label in (1, 0))
        number = max(1, min(len(bad), len(ordinary), singles))
        alone = np.concatenate([bad[:number], ordinary[:number]])
    views = inputs.draw(positions, batch.rng)
    return LoadedPools(batch.positions.shape[1], views, *map(torch.from_numpy, (batch.counts, labels, alone)))


def count_targets(pool_size: int, smoothing: float) -> NDArray[np.float64]:
    """The target of each true count: itself, and a share for its neighbours.  # (r + 1, r + 1).

    Each neighbour gets half of `smoothing`; 0 and r, which have one, keep the other half.
    """
    targets = (1 - smoothing) * np.eye(pool_size + 1)
    for count in range(pool_size + 1):
        for neighbour in (count - 1, count + 1):
            targets[count, min(max(neighbour, 0), pool_size)] += smoothing / 2
    return targets


def pool_figures(
    network: PooledNetwork, validation: CachedInputs, settings: TrainingSettings
) -> dict[str, float]:
    """Figures of a counting network on fixed validation pools, by which epochs are compared.

    They are the selecting score, exact and within-one accuracy, and the AUC of pools with 0 against 1 bad
    image.
    """
    size = network.pool_size
    numbers = settings.pool_numbers(size, settings.validation_pools)
    pools = seeded_pools(validation.labels, numbers, settings.seed, "validation")
    logits, counts = read_pools(network, validation, pools).logits, pools.counts
    if (
        settings.readings == "binary"
    ):  # right is who tells whether there is any, weighted by how many there are
        logits = logits[:, :2]
        right = logits.argmax(axis=1) == (counts > 0)
        score = weighted_mean(counts, right.astype(np.float64), size, settings.prevalence)
        told = auc_of_one(badness(logits), counts)
        exact = float(np.mean(right))
        return {"score": score, "exact": exact} | ({} if told is None else {"auc_0_1": told})
    read = logits.argmax(axis=1)
    if settings.select_by == "accuracy":
        score = weighted_accuracy(counts, read, size, settings.prevalence)
    elif settings.select_by == "likelihood":
        score = weighted_likelihood(counts, logits, settings.prevalence)
    else:
        score = float(np.mean(read == counts))
    close = np.abs(read - counts) <= 1
    figures = {"score": score, "exact": float(np.mean(read == counts)), "within_one": float(np.mean(close))}
    told = auc_of_one(badness(logits), counts)
    return figures if told is None else {**figures, "auc_0_1": told}
