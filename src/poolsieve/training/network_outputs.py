"""What trained networks say of images and pools, in batches and without gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork
from poolsieve.training.disjoint_pools import merge_disjoint
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.sampling import PoolBatch

BATCH = 32


@dataclass(frozen=True)
class ImageReadings:
    """Opinions of single images.

    Attributes:
        individual: Logits (clean, bad) of the individual network. Shape (images, 2).
        head: Logit of the gate's cheap head that the image is bad. Shape (images,).
        vectors: The individual network's vectors before its final layer. Shape (images, F).
    """

    individual: NDArray[np.float32]
    head: NDArray[np.float32]
    vectors: NDArray[np.float32]


@torch.inference_mode()
def read_images(
    individual: IndividualNetwork,
    gate: Gate,
    inputs: CachedInputs,
    positions: NDArray[np.intp] | None = None,
) -> ImageReadings:
    """Judge images of a split, plain view: those at some positions, or all."""
    individual.eval()
    gate.eval()
    logits, heads, vectors = [], [], []
    chosen = np.arange(len(inputs.labels)) if positions is None else positions
    for begin in range(0, len(chosen), BATCH):
        features = inputs.plain(chosen[begin : begin + BATCH])
        embedded = individual.embed(features)
        logits.append(individual.final(embedded).numpy())
        heads.append(gate(features)[1].numpy())
        vectors.append(embedded.numpy())
    return ImageReadings(np.concatenate(logits), np.concatenate(heads), np.concatenate(vectors))


@dataclass(frozen=True)
class PoolReadings:
    """What a counting network says of pools.

    Attributes:
        logits: Logits of the counts. Shape (pools, r + 1).
        vectors: The vectors before the final layer. Shape (pools, F).
    """

    logits: NDArray[np.float32]
    vectors: NDArray[np.float32]


def read_pools(network: PooledNetwork, inputs: CachedInputs, pools: PoolBatch) -> NDArray[np.float32]:
    """Logits of the counts of pools, plain views. Shape (pools, r + 1)."""
    return read_pool_vectors(network, inputs, pools).logits


@torch.inference_mode()
def read_pool_vectors(network: PooledNetwork, inputs: CachedInputs, pools: PoolBatch) -> PoolReadings:
    """Logits and vectors of pools, plain views."""
    network.eval()
    logits, vectors = [], []
    for begin in range(0, len(pools), BATCH):
        members = pools.members[begin : begin + BATCH]
        features = inputs.plain(members.T.ravel())
        merged, sums, _ = merge_disjoint(network, features, members.shape[1])
        embedded = network.back(merged)
        logits.append(network.read(embedded, sums).numpy())
        vectors.append(embedded.numpy())
    return PoolReadings(np.concatenate(logits), np.concatenate(vectors))
