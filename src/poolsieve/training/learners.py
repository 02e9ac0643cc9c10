"""The networks on cached front features as things that `run_phase` can train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork
from poolsieve.training.compiling import maybe_compiled
from poolsieve.training.disjoint_pools import merge_disjoint
from poolsieve.training.inputs import CachedInputs, Inputs, PoolInputs
from poolsieve.training.network_outputs import read_images, read_pools
from poolsieve.training.phases import Step
from poolsieve.training.sampling import (
    PoolBatch,
    balanced_epoch,
    draw_pools,
    epoch_generator,
    split_by_shares,
    weighted_accuracy,
    weighted_likelihood,
)
from poolsieve.training.settings import TrainingSettings


@dataclass(frozen=True)
class Batch:
    """One step's images: their positions, and where the random views come from."""

    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    epoch: int
    number: int


@dataclass(frozen=True)
class LoadedPools:
    """Pools of one size, as a step takes them.

    Attributes:
        size: Images r in a pool.
        features: Front features, place by place.  # (r * m, C, H, W)
        counts: Bad images of each pool.  # (m,)
        labels: Labels of the images, in the order of the features.  # (r * m,)
    """

    size: int
    features: Tensor
    counts: Tensor
    labels: Tensor


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
        order = balanced_epoch(self._train.labels, epoch_generator(self._settings.seed, self.name, epoch))
        batches = [order[begin : begin + self._batch] for begin in range(0, len(order), self._batch)]
        return [
            Batch(part, self._train.labels[part], epoch, number)
            for number, part in enumerate(batches)
            if len(part) >= self._least
        ]

    def load(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs and labels."""
        rng = epoch_generator(self._settings.seed, f"{self.name} views {batch.number}", batch.epoch)
        return self._train.draw(batch.positions, rng), torch.from_numpy(batch.counts)


class IndividualLearner(BalancedLearner):
    """Trains the individual network, and the gate's image logit beside it, on balanced epochs.

    The gate so learns what the bad images look like before pools ask it where. With `learn_gate` false it
    stays as it is, which it must where counting networks have learnt with it already.
    """

    def __init__(
        self,
        individual: IndividualNetwork,
        gate: Gate,
        train: CachedInputs,
        validation: CachedInputs,
        settings: TrainingSettings,
        *,
        learn_gate: bool = True,
    ) -> None:
        super().__init__("individual", train, settings.batch_images, settings)
        self.module: nn.Module = nn.ModuleDict({"individual": individual, "gate": gate})
        self.epochs = settings.individual_epochs
        self._learn_gate, self._validation = learn_gate, validation
        gate.requires_grad_(learn_gate)
        self._back = maybe_compiled(individual.back, settings.batch_images, settings)

    def new_layers(self) -> list[nn.Module]:
        """The final layer and the gate."""
        individual, gate = image_networks(self.module)
        return [individual.final, gate]

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the individual network, and of the head."""
        features, labels = loaded
        individual, gate = image_networks(self.module)
        loss, correct = image_loss(individual, self._back(features), labels, self._settings)
        if self._learn_gate:
            loss = loss + self._settings.head_weight * head_loss(gate(features)[1], labels)
        return Step(loss, correct, len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; the network's AUC selects."""
        auc, head_auc = image_aucs(module, self._validation)
        return {"score": auc, "head_auc": head_auc}


class CountingLearner:
    """Trains a counting network on random pools; its gate learns too unless it is frozen.

    A network that serves several pool sizes sees equally many pools of each in every step: batch
    normalisation then learns the mixture that it will be used with, not one size at a time.
    """

    def __init__(
        self,
        network: PooledNetwork,
        train: PoolInputs,
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
        self._pools = {size: validation_pools(validation.labels, size, settings) for size in self._sizes}
        self._batch = max(2, settings.batch_pools // len(self._sizes))  # pools of one size in a step
        self._back = maybe_compiled(network.back, self._batch * len(self._sizes), settings)
        self._targets = {
            size: torch.from_numpy(count_targets(size, settings.count_smoothing)).float()
            for size in self._sizes
        }

    def new_layers(self) -> list[nn.Module]:
        """The final layer, and a gate that learns."""
        network = cast(PooledNetwork, self.module)
        return [part for part in (network.final, network.tally, network.gate) if part is not None]

    def steps(self, epoch: int) -> list[tuple[Batch, ...]]:
        """Batches of pools, drawn anew, one of each size in a step."""
        self._train.begin(epoch)
        number = max(2, -(-self._settings.pools_per_epoch // len(self._sizes)))
        by_size = []
        for size in self._sizes:
            rng = epoch_generator(self._settings.seed, self._purpose("pools", size), epoch)
            pools = draw_pools(
                self._train.labels, split_by_shares(number, self._settings.shares_of(size)), rng
            )
            by_size.append(pool_batches(pools, self._batch, epoch))
        return list(zip(*by_size, strict=True))

    def load(self, batches: Sequence[Batch]) -> list[LoadedPools]:
        """The pools of a step, size by size."""
        return [self._load(batch) for batch in batches]

    def _load(self, batch: Batch) -> LoadedPools:
        size = batch.positions.shape[1]
        rng = epoch_generator(
            self._settings.seed, f"{self._purpose('views', size)} {batch.number}", batch.epoch
        )
        positions = batch.positions.T.ravel()
        labels = torch.from_numpy(self._train.labels[positions]).float()
        return LoadedPools(size, self._train.draw(positions, rng), torch.from_numpy(batch.counts), labels)

    def _purpose(self, what: str, size: int) -> str:
        """What random draws are for."""
        return f"{self.name} {what} {size}"

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
            logits = outputs[:, : pools.size + 1]
            targets = self._targets[pools.size][pools.counts]
            losses.append(
                functional.cross_entropy(logits, targets, label_smoothing=optimization.label_smoothing)
            )
            correct += int((logits.argmax(1) == pools.counts).sum())
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
        network, every = cast(PooledNetwork, module), {}
        for size, pools in self._pools.items():
            logits = read_pools(network.for_pools_of(size), self._validation, pools)
            every[size] = pool_figures(logits, pools, size, self._settings)
        *smaller, largest = self._sizes
        figures = {**every[largest], "score": float(np.mean([part["score"] for part in every.values()]))}
        for size in smaller:
            figures |= {f"{name}_{size}": value for name, value in every[size].items() if name != "score"}
        return figures


def count_targets(pool_size: int, smoothing: float) -> NDArray[np.float64]:
    """The target of each true count: itself, and a share for its neighbours. Shape (r + 1, r + 1).

    Each neighbour gets half of `smoothing`; 0 and r, which have one, keep the other half.
    """
    targets = (1 - smoothing) * np.eye(pool_size + 1)
    for count in range(pool_size + 1):
        for neighbour in (count - 1, count + 1):
            inside = min(max(neighbour, 0), pool_size)
            targets[count, inside] += smoothing / 2
    return targets


def validation_pools(
    labels: NDArray[np.int64], pool_size: int, settings: TrainingSettings, purpose: str = "validation"
) -> PoolBatch:
    """Fixed pools of validation images; by those of the purpose "validation" epochs are compared."""
    rng = epoch_generator(settings.seed, f"{purpose} pools {pool_size}", 0)
    return draw_pools(labels, split_by_shares(settings.validation_pools, settings.shares_of(pool_size)), rng)


def pool_batches(pools: PoolBatch, size: int, epoch: int) -> list[Batch]:
    """Pools in batches; a last batch of one pool, which would break batch norm, is left out."""
    batches = []
    for number, begin in enumerate(range(0, len(pools), size)):
        members, counts = pools.members[begin : begin + size], pools.counts[begin : begin + size]
        if len(counts) > 1:
            batches.append(Batch(members, counts, epoch, number))
    return batches


def pool_figures(
    logits: NDArray[np.float32], pools: PoolBatch, pool_size: int, settings: TrainingSettings
) -> dict[str, float]:
    """The selecting score, exact and within-one accuracy, and the AUC of pools with 0 against 1 bad image."""
    predicted = logits.argmax(axis=1)
    if settings.select_by == "accuracy":
        score = weighted_accuracy(pools.counts, predicted, pool_size, settings.prevalence)
    else:
        score = weighted_likelihood(pools.counts, logits, settings.prevalence)
    figures = {
        "score": score,
        "exact": float(np.mean(predicted == pools.counts)),
        "within_one": float(np.mean(np.abs(predicted - pools.counts) <= 1)),
    }
    few = pools.counts <= 1
    if len(np.unique(pools.counts[few])) == 2:
        figures["auc_0_1"] = float(roc_auc_score(pools.counts[few], badness(logits[few])))
    return figures


def badness(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """How sure a reading is that its pool is not clean: log P(count > 0) − log P(count = 0).  # (pools,)."""
    values = np.asarray(logits, dtype=np.float64)
    bad: NDArray[np.float64] = np.logaddexp.reduce(values[:, 1:], axis=1) - values[:, 0]
    return bad


def image_networks(module: nn.Module) -> tuple[IndividualNetwork, Gate]:
    """The networks for single images among those that learn together."""
    parts = cast(nn.ModuleDict, module)
    return cast(IndividualNetwork, parts["individual"]), cast(Gate, parts["gate"])


def image_loss(
    individual: IndividualNetwork, vectors: Tensor, labels: Tensor, settings: TrainingSettings
) -> tuple[Tensor, int]:
    """Cross-entropy of the individual network, and how many images it judges rightly.

    Args:
        individual: Its final layer is applied.
        vectors: What its back gives.  # (n, F)
        labels: Labels of the images.  # (n,)
        settings: The settings.
    """
    optimization = settings.optimization
    logits = individual.final(functional.dropout(vectors, optimization.dropout))
    loss = functional.cross_entropy(logits, labels, label_smoothing=optimization.label_smoothing)
    return loss, int((logits.argmax(1) == labels).sum())


def head_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the cheap head's logits.  # (n,) and (n,)."""
    return functional.binary_cross_entropy_with_logits(logits, labels.float())


def image_aucs(module: nn.Module, inputs: CachedInputs) -> tuple[float, float]:
    """AUC of the individual network and of the cheap head on images, plain views."""
    individual, gate = image_networks(module)
    readings = read_images(individual, gate, inputs)
    scores = (readings.individual[:, 1] - readings.individual[:, 0], readings.head)
    network, head = (float(roc_auc_score(inputs.labels, score)) for score in scores)
    return network, head
