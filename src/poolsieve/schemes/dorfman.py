"""Dorfman's two rounds: disjoint pools, then every image of a positive pool (Dorfman 1943)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from poolsieve.decoders import BeliefPropagation
from poolsieve.decoders.base import Instance, parameter
from poolsieve.designs import Pooling, disjoint_design
from poolsieve.schemes.base import USUAL_CHUNK, Decision, PooledScheme, register_scheme
from poolsieve.schemes.runner import Chunk


@register_scheme("dorfman")
@dataclass(frozen=True)
class Dorfman(PooledScheme):
    """Pools that share no image; where one holds any bad image, all its images are tested individually.

    The score of an image in a negative pool is its posterior, which is exact as pools are disjoint.

    Attributes:
        recompute: Run the whole individual network in the second round, as the paper's cost supposes, in
            place of its back on cached front features.
    """

    recompute: bool = parameter(False, Instance(bool))

    @property
    def chunk_size(self) -> int:
        """Images in a chunk, by default so that pools are full."""
        return self.chunk or -(-USUAL_CHUNK // self.pool_size) * self.pool_size

    @property
    def design(self) -> Pooling:
        """Consecutive images of a chunk's random order."""
        return _pools_in_order(self.chunk_size, self.pool_size)

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        readings = chunk.read_pools(pooling)
        with chunk.meter.time("decoding"):
            scores = BeliefPropagation().decode(readings, pooling, self.prevalence).scores[0]
        retested = np.sort(
            np.concatenate(
                [pooling.pools[q, : pooling.pool_sizes[q]] for q in np.flatnonzero(readings.counts[0])]
                or [np.empty(0, dtype=np.int32)]
            )
        ).astype(np.intp)
        flags = np.zeros(len(chunk), dtype=bool)
        return self._decision(chunk, pooling, readings, scores, flags, retested, recompute=self.recompute)


@cache
def _pools_in_order(images: int, pool_size: int) -> Pooling:
    return disjoint_design(images, pool_size)
