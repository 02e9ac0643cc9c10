"""Head, pools, Bayes, and a test of its own for every image that is doubtful or about to be flagged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from poolsieve.decoders import BeliefPropagation
from poolsieve.decoders.base import Instance, Interval, parameter
from poolsieve.designs import Pooling
from poolsieve.schemes.base import BalancedScheme, Decision, register_scheme
from poolsieve.schemes.evidence import posterior
from poolsieve.schemes.runner import Chunk

_CERTAIN = 1e-12
"""Posteriors are not taken to be nearer to certainty, so that logarithms stay finite."""


@register_scheme("adaptive")
@dataclass(frozen=True)
class Adaptive(BalancedScheme):
    """Pools clear the many; the few that are left are tested individually on cached front features.

    The head's calibrated score gives each image a prior, belief propagation over a balanced design its
    posterior. An image whose posterior is below `retest_above` is clear; about every other one the individual
    network decides, so that no image is flagged for its pool-mates' sake. Images that look bad to the head
    would be tested anyway and hide others in a pool: from `test_above` on they are tested without pools.

    Attributes:
        pools_per_image: Pools that every image is in.
        retest_above: Posterior from which an image is tested individually.
        test_above: Posterior by the head from which an image is tested at once; 1 leaves all to the pools.
        use_head: Take priors from the head; else every image has the prior `prevalence`.
    """

    pools_per_image: int = parameter(2, Interval(low=1, whole=True))
    retest_above: float = parameter(0.01, Interval(low=0, high=1))
    test_above: float = parameter(1.0, Interval(low=0, high=1))
    use_head: bool = parameter(True, Instance(bool))

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Look with the head, test what looks bad, pool the rest."""
        left = np.flatnonzero(self._priors(chunk) < self.test_above) if self.test_above < 1 else None
        if left is None or len(left) == len(chunk):
            return super().decide(chunk, rng)
        if not len(left):
            return self._test_all(chunk)
        pooling = chunk.arrange_some(self.design_for(len(left)), left, rng)
        if pooling.pool_count >= len(left):
            return self._test_all(chunk)
        return self._decide(chunk, pooling)

    def _priors(self, chunk: Chunk) -> NDArray[np.float64]:
        if self.use_head and chunk.evidence.knows_head:
            return posterior(self.prevalence, chunk.head_evidence())
        return np.full(len(chunk), self.prevalence)

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        priors = self._priors(chunk)
        readings = chunk.read_pools(pooling)
        with chunk.meter.time("decoding"):
            posteriors = BeliefPropagation().decode(readings, pooling, priors).scores[0]
        tested = (posteriors >= self.retest_above) | (pooling.image_weights == 0)
        flags = np.zeros(len(chunk), dtype=bool)
        # Images that look bad are in no pool, so pools alone would tell too low a prevalence.
        ratios = logit(np.clip(posteriors, _CERTAIN, 1 - _CERTAIN)) - logit(self.prevalence)
        return self._decision(
            chunk,
            pooling,
            readings,
            posteriors,
            flags,
            np.flatnonzero(tested),
            priors,
            image_evidence=np.stack([np.zeros_like(ratios), ratios], axis=1),
        )
