"""What trained networks say of images and pools, in batches and without gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.merging import gated_max_of_places, max_of_places
from poolsieve.training.sampling import PoolBatch

BATCH = 32


@dataclass(frozen=True)
class ImageReadings:
    """Opinions of single images.

    Attributes:
        individual: Logits (clean, bad) of the individual network. Shape (images, 2).
        head: Logit of the gate's cheap head that the image is bad. Shape (images,).
    """

    individual: NDArray[np.float32]
    head: NDArray[np.float32]


@torch.inference_mode()
def read_images(individual: IndividualNetwork, gate: Gate, inputs: CachedInputs) -> ImageReadings:
    """Judge every image of a split, plain view."""
    individual.eval()
    gate.eval()
    logits, heads = [], []
    for begin in range(0, len(inputs.labels), BATCH):
        features = inputs.plain(np.arange(begin, min(begin + BATCH, len(inputs.labels))))
        logits.append(individual(features).numpy())
        heads.append(gate(features)[1].numpy())
    return ImageReadings(np.concatenate(logits), np.concatenate(heads))


@torch.inference_mode()
def read_pools(network: PooledNetwork, inputs: CachedInputs, pools: PoolBatch) -> NDArray[np.float32]:
    """Logits of the counts of pools, plain views. Shape (pools, r + 1)."""
    network.eval()
    logits = []
    for begin in range(0, len(pools), BATCH):
        members = pools.members[begin : begin + BATCH]
        features = inputs.plain(members.T.ravel())
        logits.append(
            network.final(network.back(merge_disjoint(network, features, members.shape[1])[0])).numpy()
        )
    return np.concatenate(logits)


def merge_disjoint(
    network: PooledNetwork, features: torch.Tensor, pool_size: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Merged features and image logits of pools whose images come place by place.

    Args:
        network: Its gate, if it has one, is applied.
        features: Front features, all first images, then all second ones, ...  # (r * m, C, H, W)
        pool_size: Places r.

    Returns:
        Merged features (m, C, H, W), and the gate's image logits (r * m,) or None.
    """
    places = features.unflatten(0, (pool_size, -1))
    if network.gate is None:
        return max_of_places(places), None
    opening, logits = network.gate(features)
    return gated_max_of_places(places, opening.unflatten(0, (pool_size, -1))), logits
