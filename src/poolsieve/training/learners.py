"""The networks on cached front features as things that `run_phase` can train."""

from __future__ import annotations

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
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.phases import Step
from poolsieve.training.plan import TrainingPlan
from poolsieve.training.readings import merge_disjoint, read_images, read_pools
from poolsieve.training.sampling import (
    PoolBatch,
    balanced_epoch,
    draw_pools,
    epoch_generator,
    split_by_shares,
    weighted_accuracy,
    weighted_likelihood,
)


@dataclass(frozen=True)
class Batch:
    """One step's images: their positions, and where the random views come from."""

    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    epoch: int
    number: int


class IndividualLearner:
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
        plan: TrainingPlan,
        *,
        learn_gate: bool = True,
    ) -> None:
        self.name = "individual"
        self.module: nn.Module = nn.ModuleDict({"individual": individual, "gate": gate})
        self._learn_gate = learn_gate
        gate.requires_grad_(learn_gate)
        self.epochs = plan.individual_epochs
        self._train, self._validation, self._plan = train, validation, plan
        self._back = maybe_compiled(individual.back, plan.batch_images, plan)

    def new_layers(self) -> list[nn.Module]:
        """The final layer and the gate."""
        individual, gate = _individual_and_gate(self.module)
        return [individual.final, gate]

    def steps(self, epoch: int) -> list[Batch]:
        """Balanced batches."""
        order = balanced_epoch(self._train.labels, epoch_generator(self._plan.seed, self.name, epoch))
        size = self._plan.batch_images
        starts = range(0, len(order) - 1, size)  # a last batch of one image would break batch norm
        batches = [order[begin : begin + size] for begin in starts]
        return [
            Batch(part, self._train.labels[part], epoch, i) for i, part in enumerate(batches) if len(part) > 1
        ]

    def load(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Features and labels."""
        rng = epoch_generator(self._plan.seed, f"{self.name} views {batch.number}", batch.epoch)
        return self._train.draw(batch.positions, rng), torch.from_numpy(batch.counts)

    def loss(self, loaded: tuple[Tensor, Tensor]) -> Step:
        """Cross-entropy of the individual network, and of the head."""
        features, labels = loaded
        individual, gate = _individual_and_gate(self.module)
        optimization = self._plan.optimization
        vectors = functional.dropout(self._back(features), optimization.dropout)
        logits = individual.final(vectors)
        loss = functional.cross_entropy(logits, labels, label_smoothing=optimization.label_smoothing)
        if self._learn_gate:
            head = functional.binary_cross_entropy_with_logits(gate(features)[1], labels.float())
            loss = loss + self._plan.head_weight * head
        return Step(loss, int((logits.argmax(1) == labels).sum()), len(labels))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """AUC of network and head on validation images; the network's AUC selects."""
        individual, gate = _individual_and_gate(module)
        readings = read_images(individual, gate, self._validation)
        labels = self._validation.labels
        auc = float(roc_auc_score(labels, readings.individual[:, 1] - readings.individual[:, 0]))
        return {"score": auc, "head_auc": float(roc_auc_score(labels, readings.head))}


class CountingLearner:
    """Trains a counting network on random pools; its gate learns too unless it is frozen."""

    def __init__(
        self,
        network: PooledNetwork,
        train: CachedInputs,
        validation: CachedInputs,
        plan: TrainingPlan,
        *,
        learn_gate: bool = True,
    ) -> None:
        self.name = f"counting-{network.pool_size}"
        self.module: nn.Module = network
        self.epochs = plan.epochs
        self._train, self._validation, self._plan = train, validation, plan
        self._size = network.pool_size
        self._shares = plan.shares_of(self._size)
        self._learn_gate = learn_gate and network.gate is not None
        if network.gate is not None:
            network.gate.requires_grad_(learn_gate)
        self._pools = validation_pools(validation.labels, self._size, plan)
        self._back = maybe_compiled(network.back, plan.batch_pools, plan)
        self._targets = torch.from_numpy(count_targets(self._size, plan.count_smoothing)).float()

    def new_layers(self) -> list[nn.Module]:
        """The final layer, and a gate that learns."""
        network = cast(PooledNetwork, self.module)
        return [network.final] if network.gate is None else [network.final, network.gate]

    def steps(self, epoch: int) -> list[Batch]:
        """Batches of pools, drawn anew."""
        rng = epoch_generator(self._plan.seed, self.name, epoch)
        pools = draw_pools(self._train.labels, split_by_shares(self._plan.pools_per_epoch, self._shares), rng)
        return pool_batches(pools, self._plan.batch_pools, epoch)

    def load(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Features place by place, counts, and labels in the features' order."""
        rng = epoch_generator(self._plan.seed, f"{self.name} views {batch.number}", batch.epoch)
        positions = batch.positions.T.ravel()
        labels = torch.from_numpy(self._train.labels[positions]).float()
        return self._train.draw(positions, rng), torch.from_numpy(batch.counts), labels

    def loss(self, loaded: tuple[Tensor, Tensor, Tensor]) -> Step:
        """Cross-entropy of the count, and of the image logits of a gate that learns."""
        features, counts, labels = loaded
        network = cast(PooledNetwork, self.module)
        if network.gate is not None and not self._learn_gate:
            network.gate.eval()
        optimization = self._plan.optimization
        merged, image_logits = merge_disjoint(network, features, self._size)
        vectors = functional.dropout(self._back(merged), optimization.dropout)
        logits = network.final(vectors)
        loss = functional.cross_entropy(
            logits, self._targets[counts], label_smoothing=optimization.label_smoothing
        )
        if self._learn_gate and image_logits is not None:
            head = functional.binary_cross_entropy_with_logits(image_logits, labels)
            loss = loss + self._plan.head_weight * head
        return Step(loss, int((logits.argmax(1) == counts).sum()), len(counts))

    def judge(self, module: nn.Module) -> dict[str, float]:
        """Accuracy on the fixed validation pools; the one weighted with Binom(r, p, k) selects."""
        logits = read_pools(cast(PooledNetwork, module), self._validation, self._pools)
        return pool_figures(logits, self._pools, self._size, self._plan)


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
    labels: NDArray[np.int64], pool_size: int, plan: TrainingPlan, purpose: str = "validation"
) -> PoolBatch:
    """Fixed pools of validation images; by those of the purpose "validation" epochs are compared."""
    rng = epoch_generator(plan.seed, f"{purpose} pools {pool_size}", 0)
    return draw_pools(labels, split_by_shares(plan.validation_pools, plan.shares_of(pool_size)), rng)


def pool_batches(pools: PoolBatch, size: int, epoch: int) -> list[Batch]:
    """Pools in batches; a last batch of one pool, which would break batch norm, is left out."""
    batches = []
    for number, begin in enumerate(range(0, len(pools), size)):
        members, counts = pools.members[begin : begin + size], pools.counts[begin : begin + size]
        if len(counts) > 1:
            batches.append(Batch(members, counts, epoch, number))
    return batches


def pool_figures(
    logits: NDArray[np.float32], pools: PoolBatch, pool_size: int, plan: TrainingPlan
) -> dict[str, float]:
    """The selecting score, exact and within-one accuracy, and the AUC of pools with 0 against 1 bad image."""
    predicted = logits.argmax(axis=1)
    if plan.select_by == "accuracy":
        score = weighted_accuracy(pools.counts, predicted, pool_size, plan.prevalence)
    else:
        score = weighted_likelihood(pools.counts, logits, plan.prevalence)
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


def _individual_and_gate(module: nn.Module) -> tuple[IndividualNetwork, Gate]:
    parts = cast(nn.ModuleDict, module)
    return cast(IndividualNetwork, parts["individual"]), cast(Gate, parts["gate"])
