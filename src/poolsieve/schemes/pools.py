"""Overlapping pools whose readings and earlier looks give every image its posterior."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.bundles.recordings import PoolRecording
from poolsieve.decoders import BeliefPropagation, Readings
from poolsieve.designs import Pooling
from poolsieve.parameters import Interval, parameter
from poolsieve.schemes.look import BOUNDS
from poolsieve.schemes.pool_stage import BalancedPools, RecordedPools, Values, design_from
from poolsieve.schemes.stages import Stage, Undecided, register_stage


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

    def groups(self, undecided: Undecided, images: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], int]]:
        """What looks clear enough shares larger pools."""
        large = np.zeros_like(images)
        if self.large_below > 0:
            large = images & (undecided.posteriors() < self.large_below)
        if not large.any():
            return [(images, self.pool_size)]
        assert self.large_pool_size is not None
        return [(images & ~large, self.pool_size), (large, self.large_pool_size)]

    def chunk_size(self, usual: int) -> int:
        """So that larger pools can be full, too."""
        return super().chunk_size(max(usual, *self.sizes))

    def _design_of(self, size: int, images: int, chunk: int) -> Pooling:
        if size == self.pool_size:
            return self.design_for(images, chunk)
        return design_from(images, size, self.pools_per_image)

    @property
    def bound(self) -> str | None:
        """What it leaves to the next stage by."""
        return "retest_above"

    @property
    def complexity(self) -> int:
        """More than one decoder for all; two sizes count as two more."""
        return 6 + 2 * (self.large_below > 0)

    def futile(self, before: Sequence[Stage], prevalence: float) -> str | None:
        """Also whether a bad image without others in its pools is cleared with them, though read aright.

        Its odds are then ((1 − p) / p)^(c − 1) / (r − 1)^c, for c pools of r. Looks before may tell it from
        its pool-mates, and where several of these are bad as a rule, pools read more.
        """
        unseen = super().futile(before, prevalence)
        if unseen is not None:
            return unseen
        c, r = self.pools_per_image, self.pool_size
        if any(not stage.pools for stage in before) or prevalence * c * (r - 1) > 1:
            return None
        odds = ((1 - prevalence) / prevalence) ** (c - 1) / (r - 1) ** c
        most = odds / (1 + odds)
        if self.retest_above <= most:
            return None
        return (
            f"can find nothing: retest_above={self.retest_above}, but a lone bad image has a posterior of "
            f"{most:.3g} with pools_per_image={c} and pool_size={r}; lower it, or take more pools per image"
        )

    def offers(self, recordings: Sequence[PoolRecording], prevalence: float) -> Iterator[RecordedPools]:
        """Also two sizes: smaller pools without what looks clear to the head, with larger ones that have it.

        Where all look clear there are fewer bad pool-mates than in the recording of larger pools, in which
        others took part as well.
        """
        yield from super().offers(recordings, prevalence)
        for small, large in itertools.product(recordings, recordings):
            floor, cut = small.band
            if (
                np.isinf(small.band).any()
                or large.pool_size <= small.pool_size
                or large.band != (-np.inf, cut)
            ):
                continue
            more = {
                "large_below": float(scipy.special.expit(floor + scipy.special.logit(prevalence))),
                "large_pool_size": large.pool_size,
            }
            for classes in range(1, min(small.classes, large.classes, small.pool_size - 1) + 1):
                own = {"pool_size": small.pool_size, "pools_per_image": classes}
                yield RecordedPools(own, (small, large), large.band, more)

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
