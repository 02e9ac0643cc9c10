"""What a trained model's outputs are worth, measured on validation data."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from poolsieve.calibration import (
    EVEN,
    Calibration,
    calibrate_counting,
    fit_scaling,
    measure_correlation,
    paired,
    roc_curve,
)
from poolsieve.networks import PooledNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.outliers import OutlierReading, OutlierReadings
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import ImageOutputs, read_images, read_pools
from poolsieve.training.sampling import PoolBatch, clean_numbers, seeded_pools
from poolsieve.training.settings import TrainingSettings


def calibrate(
    model: TrainedModel,
    inputs: CachedInputs,
    settings: TrainingSettings,
    outliers: OutlierReadings | None = None,
    glances: NDArray[np.float32] | None = None,
) -> Calibration:
    """Fit every output of a model to validation data.

    The pools are drawn apart from those that selected the best epoch, on which it looks too good. They are
    made of the same images.

    Args:
        model: The networks.
        inputs: Validation images.
        settings: The settings.
        outliers: How outputs are read where off-topic images are told by the density of features.
        glances: The glance's logits of the images, if there is a glance.  # (images,)
    """
    labels = inputs.labels
    images = judge_images(model, inputs, outliers)
    counting = {}
    for size, network in sorted(model.counting.items()):
        numbers = settings.pool_numbers(size, settings.validation_pools)
        pools = seeded_pools(labels, numbers, settings.seed, "calibration")
        reading = None if outliers is None else outliers.counting[size]
        logits, read = counted(network, inputs, pools, reading)
        read_counts = partial(_counts, network, inputs, reading)
        correlation = measure_correlation(read_counts, labels, size, settings.seed)
        counting[size] = calibrate_counting(logits, pools.counts, correlation, read)
    by_density = outliers is not None and outliers.individual.by_density
    return Calibration(
        individual=EVEN if by_density else fit_scaling(images.logits, labels),
        individual_roc=roc_curve(images.margin, labels),
        head=fit_scaling(paired(images.head), labels),
        head_roc=roc_curve(images.head, labels),
        counting=counting,
        glance=None if glances is None else fit_scaling(paired(glances), labels),
        glance_roc=None if glances is None else roc_curve(glances, labels),
    )


@torch.no_grad()
def raise_clean_readings(network: PooledNetwork, inputs: CachedInputs, settings: TrainingSettings) -> float:
    """Raise the bias of count 0 until enough clean validation pools are read as 0.

    Args:
        network: A counting network with weights of its own; its final layer is changed.
        inputs: Validation images.
        settings: Its `clean_share` says how many are enough.

    Returns:
        By how much the bias was raised, 0 if that many were read as 0 before.
    """
    if settings.clean_share is None:
        return 0.0
    numbers = clean_numbers(network.pool_size, settings.validation_pools)
    pools = seeded_pools(inputs.labels, numbers, settings.seed, "clean")
    logits = read_pools(network, inputs, pools).logits
    behind = logits[:, 1:].max(axis=1) - logits[:, 0]  # above 0 where another count is read
    raised = max(0.0, float(np.quantile(behind, settings.clean_share, method="higher")))
    if raised:
        raised += 1e-5 * (1 + abs(raised))  # more than sums are rounded by
        cast(nn.Linear, network.final).bias[0] += raised
    return raised


def judge_images(model: TrainedModel, inputs: CachedInputs, outliers: OutlierReadings | None) -> ImageOutputs:
    """What the individual network and the head say of images, plain views."""
    outputs = read_images(model.individual, model.gate, inputs)
    if outliers is None:
        return outputs
    return replace(outputs, logits=outliers.individual.read(outputs.logits, outputs.vectors)[0])


def counted(
    network: PooledNetwork, inputs: CachedInputs, pools: PoolBatch, reading: OutlierReading | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits (pools, r + 1) and counts (pools,) that a counting network reads, plain views."""
    outputs = read_pools(network, inputs, pools)
    if reading is None:
        return outputs.logits, outputs.logits.argmax(axis=1)
    return reading.read(outputs.logits, outputs.vectors)


def _counts(
    network: PooledNetwork, inputs: CachedInputs, reading: OutlierReading | None, members: NDArray[np.int64]
) -> NDArray[np.int64]:
    pools = PoolBatch(members, inputs.labels[members].sum(axis=1))
    return counted(network, inputs, pools, reading)[1]
