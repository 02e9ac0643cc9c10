"""Head, pools, Bayes, and a test of its own for every image that is doubtful or about to be flagged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.decoders.base import Instance, Interval, parameter
from poolsieve.designs import NO_IMAGE, Pooling
from poolsieve.schemes.base import (
    BY_HEAD,
    BY_INDIVIDUAL,
    BalancedScheme,
    Decision,
    design_from,
    register_scheme,
)
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
    Those that look clear enough need no pool either: below `clear_below` they are clear. And those that look
    clear, but not that clear, can share larger pools among themselves: below `large_below` they do.

    Attributes:
        pools_per_image: Pools that every image is in.
        retest_above: Posterior from which an image is tested individually.
        test_above: Posterior by the head from which an image is tested at once; 1 leaves all to the pools.
        clear_below: Posterior by the head below which an image is clear at once; 0 leaves all to the pools.
        large_below: Posterior by the head below which images share larger pools; 0 for one size of pools.
        large_pool_size: Images in a larger pool.
        use_head: Take priors from the head; else every image has the prior `prevalence`.
    """

    pools_per_image: int = parameter(2, Interval(low=1, whole=True))
    retest_above: float = parameter(0.01, Interval(low=0, high=1))
    test_above: float = parameter(1.0, Interval(low=0, high=1))
    clear_below: float = parameter(0.0, Interval(low=0, high=1))
    large_below: float = parameter(0.0, Interval(low=0, high=1))
    large_pool_size: int | None = parameter(None, Interval(low=2, whole=True, optional=True))
    use_head: bool = parameter(True, Instance(bool))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clear_below > self.test_above:
            raise ValueError(
                f"adaptive: clear_below={self.clear_below} lies above test_above={self.test_above}"
            )
        if self.large_below > 0 and self.large_pool_size is None:
            raise ValueError(f"adaptive: large_below={self.large_below} needs a large_pool_size")
        if self.large_pool_size is not None and self.large_pool_size <= self.pool_size:
            raise ValueError(
                f"adaptive: large_pool_size={self.large_pool_size} is not above pool_size={self.pool_size}"
            )

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Look with the head, clear what looks clear, test what looks bad, pool the rest."""
        if self.clear_below == 0 and self.test_above == 1 and self.large_below == 0:
            return super().decide(chunk, rng)  # all are pooled, if there are enough for pools
        priors = self._priors(chunk)
        left = (priors >= self.clear_below) & (priors < self.test_above)
        large = left & (priors < self.large_below)
        if left.all() and not large.any():
            return super().decide(chunk, rng)
        poolings = []
        for images, designs in ((left & ~large, self.design_for), (large, self._large_design_for)):
            some = np.flatnonzero(images)
            if len(some):
                pooling = chunk.arrange_some(designs(len(some)), some, rng)
                if pooling.pool_count < len(some):
                    poolings.append(pooling)
        if poolings:
            return self._from_readings(chunk, *together([(p, chunk.read_pools(p)) for p in poolings]))
        return self._test_some(chunk, priors, np.flatnonzero(priors >= self.clear_below))

    def _large_design_for(self, images: int) -> Pooling:
        assert self.large_pool_size is not None
        return design_from(images, self.large_pool_size, self.pools_per_image)

    def _test_some(self, chunk: Chunk, priors: NDArray[np.float64], tested: NDArray[np.intp]) -> Decision:
        """Pools would be as many as images: test those that the head does not clear."""
        scores, decided_by = priors.copy(), np.full(len(chunk), BY_HEAD, dtype="<U10")
        logits = chunk.test(tested)
        scores[tested], decided_by[tested] = chunk.evidence.image_scores(logits), BY_INDIVIDUAL
        flags = np.zeros(len(chunk), dtype=bool)
        flags[tested] = scores[tested] > self.threshold
        evidence = _ratios(priors, self.prevalence)
        evidence[tested] = chunk.evidence.of_images(logits)
        sizes = np.ones(len(chunk), dtype=np.int64)
        return Decision(scores, flags, decided_by, evidence, sizes, 1.0, priors=priors)

    def _priors(self, chunk: Chunk) -> NDArray[np.float64]:
        if self.use_head and chunk.evidence.knows_head:
            return posterior(self.prevalence, chunk.head_evidence())
        return np.full(len(chunk), self.prevalence)

    def _decide(self, chunk: Chunk, pooling: Pooling) -> Decision:
        return self._from_readings(chunk, pooling, chunk.read_pools(pooling))

    def _from_readings(self, chunk: Chunk, pooling: Pooling, readings: Readings) -> Decision:
        priors = self._priors(chunk)
        with chunk.meter.time("decoding"):
            posteriors = BeliefPropagation().decode(readings, pooling, priors).scores[0]
        cleared = priors < self.clear_below
        tested = ((posteriors >= self.retest_above) | (pooling.image_weights == 0)) & ~cleared
        decision = self._decision(
            chunk,
            pooling,
            readings,
            posteriors,
            np.zeros(len(chunk), dtype=bool),
            np.flatnonzero(tested),
            priors,
            # Images that look bad are in no pool, so pools alone would tell too low a prevalence.
            image_evidence=_ratios(posteriors, self.prevalence),
        )
        return replace(decision, decided_by=np.where(cleared, BY_HEAD, decision.decided_by))


def together(parts: Sequence[tuple[Pooling, Readings]]) -> tuple[Pooling, Readings]:
    """Pools of several sizes over the same images as one pooling, with their readings."""
    if len(parts) == 1:
        return parts[0]
    size = max(pooling.pool_size for pooling, _ in parts)
    rows, counts, tables = [], [], []
    for pooling, readings in parts:
        assert readings.log_likelihoods is not None
        wider = ((0, 0), (0, size - pooling.pool_size))
        rows.append(np.pad(pooling.pools, wider, constant_values=NO_IMAGE))
        counts.append(readings.counts[0])
        # A smaller pool cannot hold so many bad images.
        tables.append(np.pad(readings.log_likelihoods[0], wider, constant_values=-np.inf))
    pooling = Pooling(np.concatenate(rows), parts[0][0].images, pool_size=size)
    return pooling, Readings(np.concatenate(counts)[None], np.concatenate(tables)[None])


def _ratios(posteriors: NDArray[np.float64], prevalence: float) -> NDArray[np.float64]:
    """What was seen of images, as log-likelihoods (clear, bad) up to a constant.  # (k,) -> (k, 2)."""
    ratios = logit(np.clip(posteriors, _CERTAIN, 1 - _CERTAIN)) - logit(prevalence)
    return np.stack([np.zeros_like(ratios), ratios], axis=1)
