"""What trained networks say of images and pools, in batches and without gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from poolsieve.networks import Gate, GlanceNetwork, IndividualNetwork, PooledNetwork
from poolsieve.statistics import auc
from poolsieve.training.gated_maximum import merge_disjoint
from poolsieve.training.inputs import CachedInputs, Inputs
from poolsieve.training.sampling import PoolBatch

BATCH, GLANCE_BATCH = 32, 64


@dataclass(frozen=True)
class NetworkOutputs:
    """What a network says of images or pools.

    Attributes:
        logits: Of clean and bad, or of the counts.  # (n, 2) or (pools, r + 1)
        vectors: The vectors before the final layer.  # (n, F)
    """

    logits: NDArray[np.float32]
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class ImageOutputs(NetworkOutputs):
    """What the individual network says of images, and the gate's cheap head.

    Attributes:
        head: Logit of the head that the image is bad.  # (n,)
    """

    head: NDArray[np.float32]

    @property
    def margin(self) -> NDArray[np.float32]:
        """Logit of the individual network that the image is bad.  # (n,)."""
        return self.logits[:, 1] - self.logits[:, 0]


@torch.inference_mode()
def read_images(
    individual: IndividualNetwork,
    gate: Gate,
    inputs: CachedInputs,
    positions: NDArray[np.intp] | None = None,
) -> ImageOutputs:
    """Judge images of a split, plain view: those at some positions, or all."""
    individual.eval()
    gate.eval()
    parts = []
    chosen = np.arange(len(inputs.labels)) if positions is None else positions
    for begin in range(0, len(chosen), BATCH):
        features = inputs.plain(chosen[begin : begin + BATCH])
        vectors = individual.embed(features)
        parts.append((individual.final(vectors), vectors, gate(features)[1]))
    return ImageOutputs(*_joined(parts))


@torch.inference_mode()
def read_pools(network: PooledNetwork, inputs: CachedInputs, pools: PoolBatch) -> NetworkOutputs:
    """Count in pools, plain views."""
    network.eval()
    parts = []
    for begin in range(0, len(pools), BATCH):
        members = pools.members[begin : begin + BATCH]
        merged, sums, _ = merge_disjoint(network, inputs.plain(members.T.ravel()), members.shape[1])
        vectors = network.back(merged)
        parts.append((network.read(vectors, sums), vectors))
    return NetworkOutputs(*_joined(parts))


@torch.inference_mode()
def glance_logits(network: GlanceNetwork, inputs: Inputs) -> NDArray[np.float32]:
    """How bad the plain view of each image of a split looks at a glance.  # (images,)."""
    network.eval()
    every = np.arange(len(inputs.labels))
    starts = range(0, len(every), GLANCE_BATCH)
    (logits,) = _joined([(network(inputs.plain(every[k : k + GLANCE_BATCH])),) for k in starts])
    return logits


def _joined(parts: Sequence[tuple[Tensor, ...]]) -> Iterator[NDArray[np.float32]]:
    return (torch.cat(column).numpy() for column in zip(*parts, strict=True))


def badness(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """How sure a reading is that its pool is not clean: log P(count > 0) − log P(count = 0).  # (pools,)."""
    values = np.asarray(logits, dtype=np.float64)
    bad: NDArray[np.float64] = np.logaddexp.reduce(values[:, 1:], axis=1) - values[:, 0]
    return bad


def auc_of_one(scores: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    """AUC of pools with one bad image against clean ones; None unless there are both.  # (pools,)."""
    few = counts <= 1
    return auc(scores[few], counts[few]) if len(np.unique(counts[few])) == 2 else None
