"""Rounds of disjoint pools: Dorfman's first (Dorfman 1943), and those of hierarchical testing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.decoders.binary_decoders import positive_pools_of
from poolsieve.designs import Pooling, disjoint_design
from poolsieve.schemes.decoded_pools import DecodedPools
from poolsieve.schemes.pool_stage import PoolStage, Values
from poolsieve.schemes.stages import Stage, Undecided, register_stage


@register_stage("disjoint_pools")
@dataclass(frozen=True)
class DisjointPools(PoolStage):
    """Pools that share no image; every image of a pool with any bad one is left to the next stage.

    The score of an image in a negative pool is its posterior, which is exact in the first round, as pools are
    disjoint. Followed by smaller pools this is hierarchical testing, as in the three rounds of Neural Group
    Testing (Liang and Zou 2021, algorithm 2: pools of 16, then of 4, then single images). What a round leaves
    is dealt anew over the pools of the next, where Liang and Zou split each pool by itself.
    """

    def chunk_size(self, usual: int) -> int:
        """So that pools are full."""
        return -(-usual // self.pool_size) * self.pool_size

    def futile(self, before: Sequence[Stage], prevalence: float) -> str | None:
        """Also whether it follows a round of smaller pools, each image of which has a bad one beside it.

        A look between them may tell these apart.
        """
        rounds = itertools.takewhile(lambda stage: stage.pools, reversed(before))
        sizes = [stage.pool_size for stage in rounds if isinstance(stage, DisjointPools)]
        if sizes and self.pool_size > min(sizes):
            return (
                f"with pool_size={self.pool_size} pools what pools of {min(sizes)} left, and so hardly ever "
                "finds a clean one; put larger pools before smaller ones"
            )
        return super().futile(before, prevalence)

    def design_for(self, images: int, chunk: int) -> Pooling:
        """Consecutive images of a random order."""
        return _pools_in_order(chunk, self.pool_size)

    def _decide(self, undecided: Undecided, pooling: Pooling, readings: Readings) -> None:
        undecided.priors = undecided.posteriors()
        with undecided.chunk.meter.time("decoding"):
            scores = BeliefPropagation().decode(readings, pooling, undecided.priors).scores[0]
        undecided.record_pools(pooling, readings, tell_prevalence=True)
        undecided.believe(scores)
        undecided.pool_scores = scores
        positive = self.values(readings, pooling, undecided.priors[None])[0] > 0
        cleared = undecided.open & ~positive & (pooling.image_weights > 0)
        undecided.decide(cleared, scores, False, "pools")

    @property
    def complexity(self) -> int:
        """More than a look, less than what decodes."""
        return 2

    @property
    def teller(self) -> PoolStage:
        """Belief propagation, which is exact here."""
        return DecodedPools(pool_size=self.pool_size, pools_per_image=1, decoder="bp")

    def scaled(self, values: Values) -> Values:
        """As they are."""
        return values

    def bounds(self, clear: Values) -> Values:
        """Positive or not."""
        return np.array([0.5])

    def values(self, readings: Readings, pooling: Pooling, priors: Values) -> Values:
        """1 for images in a pool with any bad one, else 0."""
        return (positive_pools_of(readings, pooling) > 0).astype(np.float64)


@cache
def _pools_in_order(images: int, pool_size: int) -> Pooling:
    return disjoint_design(images, pool_size)
