"""Dorfman's first round: disjoint pools (Dorfman 1943)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.designs import Pooling, disjoint_design
from poolsieve.schemes.pooling import PoolStage
from poolsieve.schemes.stages import Undecided, register_stage


@register_stage("disjoint_pools")
@dataclass(frozen=True)
class DisjointPools(PoolStage):
    """Pools that share no image; every image of a pool with any bad one is left to the next stage.

    The score of an image in a negative pool is its posterior, which is exact as pools are disjoint.
    """

    def chunk_size(self, usual: int) -> int:
        """So that pools are full."""
        return -(-usual // self.pool_size) * self.pool_size

    def design_for(self, images: int, chunk: int) -> Pooling:
        """Consecutive images of a random order."""
        return _pools_in_order(chunk, self.pool_size)

    def _decide(self, undecided: Undecided, pooling: Pooling, readings: Readings) -> None:
        undecided.priors = undecided.posteriors()
        with undecided.chunk.meter.time("decoding"):
            scores = BeliefPropagation().decode(readings, pooling, undecided.priors).scores[0]
        everyone = bool((pooling.image_weights > 0).all())
        undecided.record_pools(pooling, readings, tell_prevalence=everyone)
        undecided.pool_scores = scores
        undecided.decide(negative(pooling, readings) & undecided.open, scores, False, "pools")


def negative(pooling: Pooling, readings: Readings) -> np.ndarray:
    """Images that are in pools, all of which were read as clean.  # (n,)."""
    positive = readings.counts[0] > 0
    found = np.zeros(pooling.images, dtype=bool)
    found[pooling.pools[~positive][pooling.pools[~positive] >= 0]] = True
    found[pooling.pools[positive][pooling.pools[positive] >= 0]] = False
    return found


@cache
def _pools_in_order(images: int, pool_size: int) -> Pooling:
    return disjoint_design(images, pool_size)
