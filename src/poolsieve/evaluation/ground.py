"""Where schemes are tried: networks, what their outputs are worth, and a mixture of known images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.calibration import (
    EVEN,
    Calibration,
    calibrate_counting,
    fit_scaling,
    paired,
    roc_curve,
)
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.evaluation.trials import Trial, run_scheme
from poolsieve.recordings import Recordings
from poolsieve.schemes import Evidence, Scheme
from poolsieve.schemes.cost import Price
from poolsieve.schemes.runner import Networks
from poolsieve.training.sampling import draw_pools, pool_shares, split_by_shares

_BLOCK = 64


@dataclass(frozen=True)
class Ground:
    """A mixture, and networks to judge it with.

    Attributes:
        networks: Most often `RecordedNetworks`; None where there are no images to try anything on, but a
            prevalence to set methods up for.
        evidence: What their outputs are worth.
        price: Multiply-adds of the networks.
        pool_sizes: Pool sizes that they read.
        gated: Whether features are multiplied by the gate before they are merged.
        mixture: What to judge.
        seed: Decides who shares a pool with whom.
        recordings: What the bundle's plans are made of, if it has any.
    """

    networks: Networks | None
    evidence: Evidence
    price: Price
    pool_sizes: tuple[int, ...]
    gated: bool
    mixture: Mixture
    seed: int
    recordings: Recordings | None = None

    @property
    def has_images(self) -> bool:
        """Whether anything can be tried here."""
        return self.networks is not None

    def run(self, scheme: Scheme) -> Trial:
        """Judge the mixture by a scheme."""
        assert self.networks is not None, "there are no images to run a scheme on"
        return run_scheme(
            scheme, self.mixture, self.networks, self.evidence, self.price, gated=self.gated, seed=self.seed
        )


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
