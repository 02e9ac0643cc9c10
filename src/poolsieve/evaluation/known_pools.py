"""Pools and images of known content: how they are read, and what that says of the networks' outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.calibration import EVEN, Calibration, calibrate_counting, fit_scaling, paired, roc_curve
from poolsieve.schemes.runner import Networks
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
    labels: NDArray[np.int64],
    pool_size: int,
    pools: int,
    rng: np.random.Generator,
    *,
    gated: bool,
) -> ReadPools:
    """Read pools whose numbers of bad images are spread as in the paper's validation pools."""
    drawn = draw_pools(labels, split_by_shares(pools, pool_shares(pool_size)), rng)
    numbers = np.arange(len(labels))
    gate = numbers if gated else None
    outputs = [
        networks.pooled(numbers, gate, drawn.members[start : start + _BLOCK], pool_size)  # type: ignore[arg-type]
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
) -> Calibration:
    """What outputs are worth, by images and pools with known labels.

    Args:
        logits: Of the individual network, as they are read.  # (distinct, 2)
        head_logits: Of the cheap head.  # (distinct,)
        labels: 1 for the bad ones.  # (distinct,)
        pools: Pools of known content by their size.
        by_density: Single images are judged by density alone, whose label must stay what it is.
    """
    table = logits.astype(np.float64)
    return Calibration(
        individual=EVEN if by_density else fit_scaling(table, labels),
        individual_roc=roc_curve(table[:, 1] - table[:, 0], labels),
        head=fit_scaling(paired(head_logits), labels),
        head_roc=roc_curve(head_logits, labels),
        counting={
            size: calibrate_counting(read.logits, read.counts, read=read.read) for size, read in pools.items()
        },
    )
