"""Head, pools, Bayes, and a test of its own for every image that is doubtful or about to be flagged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.decoders import BeliefPropagation
from poolsieve.decoders.base import Instance, Interval, parameter
from poolsieve.designs import Pooling
from poolsieve.schemes.base import BalancedScheme, Decision, register_scheme
from poolsieve.schemes.evidence import posterior
from poolsieve.schemes.runner import Chunk


@register_scheme("adaptive")
@dataclass(frozen=True)
class Adaptive(BalancedScheme):
    """Pools clear the many; the few that are left are tested individually on cached front features.

    The head's calibrated score gives each image a prior, belief propagation over a balanced design its
    posterior. An image whose posterior is below `retest_above` is clear; about every other one the individual
    network decides, so that no image is flagged for its pool-mates' sake.

    Attributes:
        pools_per_image: Pools that every image is in.
        retest_above: Posterior from which an image is tested individually.
        use_head: Take priors from the head; else every image has the prior `prevalence`.
    """

    pools_per_image: int = parameter(2, Interval(low=1, whole=True))
    retest_above: float = parameter(0.01, Interval(low=0, high=1))
    use_head: bool = parameter(True, Instance(bool))

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        priors = np.full(len(chunk), self.prevalence)
        if self.use_head and chunk.evidence.knows_head:
            priors = posterior(self.prevalence, chunk.head_evidence())
        readings = chunk.read_pools(pooling)
        with chunk.meter.time("decoding"):
            posteriors = BeliefPropagation().decode(readings, pooling, priors).scores[0]
        retested = np.flatnonzero(posteriors >= self.retest_above)
        flags = np.zeros(len(chunk), dtype=bool)
        return self._decision(chunk, pooling, readings, posteriors, flags, retested, priors)
