"""Overlapping pools whose readings and earlier looks give every image its posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.designs import Pooling
from poolsieve.parameters import Interval, parameter
from poolsieve.schemes.look import BOUNDS
from poolsieve.schemes.pool_stage import BalancedPools, Values, design_from
from poolsieve.schemes.stages import Undecided, register_stage


@register_stage("pools")
@dataclass(frozen=True)
class Pools(BalancedPools):
    """Pools that clear the many; the few that are left have a test of their own.

    Earlier looks give each image a prior, belief propagation over a balanced design its posterior. Images
    that look clear, but not clear enough for the look before, can share larger pools among themselves.

    Attributes:
        pools_per_image: Pools that every image is in.
        retest_above: Posterior from which an image is left to the next stage.
        large_below: Posterior by earlier looks below which images share larger pools; 0 for one size.
        large_pool_size: Images in a larger pool.
    """

    retest_above: float = parameter(0.01, Interval(low=0, high=1))
    large_below: float = parameter(0.0, Interval(low=0, high=1))
    large_pool_size: int | None = parameter(None, Interval(low=2, whole=True, optional=True))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.large_below > 0 and self.large_pool_size is None:
            raise ValueError(f"{self.name}: large_below={self.large_below} needs a large_pool_size")
        if self.large_pool_size is not None and self.large_pool_size <= self.pool_size:
            raise ValueError(
                f"{self.name}: large_pool_size={self.large_pool_size} is not above pool_size={self.pool_size}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Both sizes, if there are two."""
        return (self.pool_size,) if self.large_pool_size is None else (self.pool_size, self.large_pool_size)

    def _groups(self, undecided: Undecided, images: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], int]]:
        large = np.zeros_like(images)
        if self.large_below > 0:
            large = images & (undecided.posteriors() < self.large_below)
        if not large.any():
            return [(images, self.pool_size)]
        assert self.large_pool_size is not None
        return [(images & ~large, self.pool_size), (large, self.large_pool_size)]

    def _design_of(self, size: int, images: int, chunk: int) -> Pooling:
        if size == self.pool_size:
            return self.design_for(images, chunk)
        return design_from(images, size, self.pools_per_image)

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """One or two pools per image, and bounds from which images are tested."""
        return {"pools_per_image": (1, 2), "retest_above": BOUNDS}

    def values(self, readings: Readings, pooling: Pooling, priors: Values) -> Values:
        """Posteriors by belief propagation."""
        return BeliefPropagation().decode(readings, pooling, priors).scores

    def _decide(self, undecided: Undecided, pooling: Pooling, readings: Readings) -> None:
        undecided.priors = undecided.posteriors()
        with undecided.chunk.meter.time("decoding"):
            posteriors = self.values(readings, pooling, undecided.priors[None])[0]
        # Images that look bad are in no pool, so pools alone would tell too low a prevalence.
        undecided.record_pools(pooling, readings, tell_prevalence=False)
        undecided.believe(posteriors)
        undecided.pool_scores = posteriors
        cleared = (posteriors < self.retest_above) & (pooling.image_weights > 0) & undecided.open
        undecided.decide(cleared, posteriors, False, "pools")
