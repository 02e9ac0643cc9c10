"""Pools and images of known content: how they are read, and what that says of the networks' outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from poolsieve.calibration import (
    EVEN,
    Calibration,
    ErrorCorrelation,
    calibrate_counting,
    fit_scaling,
    measure_correlation,
    paired,
    roc_curve,
)
from poolsieve.engines.engine import Engine
from poolsieve.export.recording import front_features
from poolsieve.progress import Reporter
from poolsieve.schemes.runner import Features, Networks
from poolsieve.training.sampling import draw_pools, pool_shares, split_by_shares

_BLOCK = 64


@dataclass(frozen=True)
class ReadPools:
    """Pools with known counts, and what was read of them.

    Attributes:
        members: Numbers of their images.  # (pools, r)
        counts: True counts.  # (pools,)
        logits: Outputs of the counting network.  # (pools, r + 1)
        read: Counts that were read.  # (pools,)
    """

    members: NDArray[np.int64]
    counts: NDArray[np.int64]
    logits: NDArray[np.float32]
    read: NDArray[np.int64]


def read_drawn_pools(
    networks: Networks,
    features: Features,
    gate: Features | None,
    labels: NDArray[np.int64],
    pool_size: int,
    pools: int,
    seed: int,
) -> ReadPools:
    """Read pools whose numbers of bad images are spread as in the paper's validation pools.

    Args:
        networks: What reads them.
        features: Front features of the images.  # (n, C, H, W)
        gate: Their gates where merging is gated.  # (n, 1 + K, H, W)
        labels: 1 for the bad ones.  # (n,)
        pool_size: Images of a pool.
        pools: Number of pools.
        seed: Draws them.
    """
    rng = np.random.default_rng([seed, pool_size])
    drawn = draw_pools(labels, split_by_shares(pools, pool_shares(pool_size)), rng)
    outputs = [
        networks.pooled(features, gate, drawn.members[start : start + _BLOCK], pool_size)
        for start in range(0, len(drawn), _BLOCK)
    ]
    read = [output.logits.argmax(axis=1) if output.counts is None else output.counts for output in outputs]
    logits = np.concatenate([output.logits for output in outputs])
    return ReadPools(drawn.members, drawn.counts, logits, np.concatenate(read))


def calibrate_on(
    logits: NDArray[np.float32],
    head_logits: NDArray[np.float32],
    labels: NDArray[np.int64],
    pools: dict[int, ReadPools],
    *,
    by_density: bool = False,
    glances: NDArray[np.float32] | None = None,
    correlations: Mapping[int, ErrorCorrelation | None] | None = None,
) -> Calibration:
    """What outputs are worth, by images and pools with known labels.

    Args:
        logits: Of the individual network, as they are read.  # (distinct, 2)
        head_logits: Of the cheap head.  # (distinct,)
        labels: 1 for the bad ones.  # (distinct,)
        pools: Pools of known content by their size.
        by_density: Single images are judged by density alone, whose label must stay what it is.
        glances: Logits of the glance, if there is one.  # (distinct,)
        correlations: How errors of pools that share an image go together, by pool size, where measured.
    """
    table = logits.astype(np.float64)
    return Calibration(
        individual=EVEN if by_density else fit_scaling(table, labels),
        individual_roc=roc_curve(table[:, 1] - table[:, 0], labels),
        head=fit_scaling(paired(head_logits), labels),
        head_roc=roc_curve(head_logits, labels),
        counting={
            size: calibrate_counting(read.logits, read.counts, (correlations or {}).get(size), read.read)
            for size, read in pools.items()
        },
        glance=None if glances is None else fit_scaling(paired(glances), labels),
        glance_roc=None if glances is None else roc_curve(glances, labels),
    )


def calibrate_engine(
    engine: Engine,
    pixels: NDArray[np.uint8],
    small: NDArray[np.uint8],
    bad: NDArray[np.bool_],
    *,
    pools: int,
    seed: int,
    reporter: Reporter,
) -> Calibration:
    """What the outputs of an engine's networks are worth, by labelled images that nothing was trained on.

    Args:
        engine: Runs the bundle to be calibrated.
        pixels: The images, as networks take them.  # (N, S, S, 3)
        small: The same as networks take them that shrink them.
        bad: Their labels.  # (N,)
        pools: Pools of each size that are read.
        seed: Draws them.
        reporter: Told how far it is.
    """
    config, labels = engine.bundle.config, bad.astype(np.int64)
    features = front_features(engine, config, small if config.shrink > 1 else pixels, reporter)
    head = engine.head(features)
    gate = head.gate if config.merge == "gated" else None
    outliers = engine.bundle.outliers

    def count(size: int, members: NDArray[np.int64]) -> NDArray[np.int64]:
        output = engine.pooled(features, gate, members, size)
        return output.logits.argmax(axis=1) if output.counts is None else output.counts

    known, correlations = {}, {}
    with reporter.task("pool sizes", len(config.pool_sizes)) as task:
        for size in config.pool_sizes:
            known[size] = read_drawn_pools(engine, features, gate, labels, size, pools, seed)
            correlations[size] = measure_correlation(partial(count, size), labels, size, seed)
            task.advance(1)
    glances = None
    if config.glance is not None:
        glances = engine.glance(features if config.joined else small)
    return calibrate_on(
        engine.individual(pixels if config.joined else features).logits,
        head.logits,
        labels,
        known,
        by_density=outliers is not None and outliers.individual.by_density,
        glances=glances,
        correlations=correlations,
    )
