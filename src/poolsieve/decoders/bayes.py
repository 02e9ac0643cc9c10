"""Decoders that weigh likelihoods and priors: belief propagation, and the most probable set found exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.decoders.decoder import Decoder, Decoding, Instance, Interval, parameter, register_decoder
from poolsieve.decoders.kernels.branch_and_bound import least_cost
from poolsieve.decoders.kernels.messages import propagate_beliefs
from poolsieve.decoders.noise import CountNoise, likelihoods_of, prior_log_odds
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling

IMPOSSIBLE = 1e3
"""Cost that stands for −log 0: it outweighs any evidence, but not a certain prior."""
FEW_IMAGES = 10
"""So few pooled images are weighed set by set: messages are too sure of pools that cross again and again."""


@register_decoder("bp")
@dataclass(frozen=True)
class BeliefPropagation(Decoder):
    """Posterior probability of every image from soft or hard readings and per-image priors.

    Sum-product message passing (Kschischang, Frey and Loeliger 2001) between images and pools, where a pool
    knows the likelihood of each count. Exact where the graph has no cycles or no more than `FEW_IMAGES` are
    pooled, whose sets are all summed over; elsewhere the usual approximation, damped. The score is the
    posterior; an image is flagged where it exceeds `threshold`.
    `Decoding.solved` says whether the messages settled.

    Attributes:
        threshold: Posterior above which an image is flagged.
        noise: P(reading | count) for readings that hold only counts; None for `CountNoise.nominal`.
        damping: Share of the old message that is kept, from the second round on.
        rounds: Rounds at most.
        tolerance: Change of log-odds below which a message has settled.
    """

    threshold: float = parameter(0.5, Interval(low=0, high=1))
    noise: CountNoise | None = parameter(None, Instance(CountNoise))
    damping: float = parameter(0.5, Interval(low=0, high=0.99))
    rounds: int = parameter(100, Interval(low=1, whole=True))
    tolerance: float = parameter(1e-2, Interval(low=0, open_low=True))

    uses_priors: ClassVar = True
    thresholds_scores: ClassVar = True
    default_grid: ClassVar = {
        "threshold": (0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
    }

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        likelihoods, prior_odds = (
            likelihoods_of(readings, self.noise, design.pool_size),
            prior_log_odds(priors),
        )
        if np.count_nonzero(design.image_weights) <= FEW_IMAGES:
            log_odds, settled = (
                _sum_over_sets(likelihoods, prior_odds, design),
                np.ones(len(priors), dtype=bool),
            )
        else:
            log_odds, settled = propagate_beliefs(
                np.exp(likelihoods),
                prior_odds,
                design,
                int(self.rounds),
                float(self.damping),
                float(self.tolerance),
            )
        posterior = scipy.special.expit(log_odds)
        return Decoding(posterior, posterior > self.threshold, settled)


def _sum_over_sets(
    likelihoods: NDArray[np.float64], prior_odds: NDArray[np.float64], design: Pooling
) -> NDArray[np.float64]:
    """Log-odds of every image by all sets of pooled images that may be the bad ones.  # (chunks, n)."""
    pooled = np.flatnonzero(design.image_weights)
    sets = (np.arange(2 ** len(pooled))[:, None] >> np.arange(len(pooled))) & 1
    weights = prior_odds[:, pooled] @ sets.T  # (chunks, sets)
    costs = np.minimum(-likelihoods, IMPOSSIBLE)
    for q, pool in enumerate(design.pools):
        weights -= costs[:, q, sets[:, np.isin(pooled, pool)].sum(axis=1)]
    log_odds = prior_odds.copy()
    for place, image in enumerate(pooled):
        bad = sets[:, place] == 1
        log_odds[:, image] = scipy.special.logsumexp(weights[:, bad], axis=1)
        log_odds[:, image] -= scipy.special.logsumexp(weights[:, ~bad], axis=1)
    return log_odds


@register_decoder("map")
@dataclass(frozen=True)
class MAP(Decoder):
    """Maximum a posteriori: the x of largest P(x) · Π_q P(reading_q | (Φx)_q), by branch and bound.

    The score is x; `Decoding.objective` is −log of that product up to a constant. From counts alone the
    likelihoods come from `noise`.

    Attributes:
        noise: P(reading | count) for readings that hold only counts; None for `CountNoise.nominal`.
        node_limit: As in `MIP`.
    """

    noise: CountNoise | None = parameter(None, Instance(CountNoise))
    node_limit: int | None = parameter(None, Interval(low=1, whole=True, optional=True))

    uses_priors: ClassVar = True

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        costs = np.minimum(-likelihoods_of(readings, self.noise, design.pool_size), IMPOSSIBLE)
        costs = np.ascontiguousarray(costs, dtype=np.float64)
        x, objective, proven = least_cost(costs, -prior_log_odds(priors), design, self.node_limit)
        return Decoding(x.astype(np.float64), x, proven, objective)
