"""MAP: the most probable set of bad images, found exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.base import Decoder, Decoding, Instance, Interval, parameter, register_decoder
from poolsieve.decoders.kernels.branch_and_bound import least_cost
from poolsieve.decoders.noise import CountNoise, likelihoods_of, prior_log_odds
from poolsieve.decoders.readings import Readings
from poolsieve.decoders.solvers import NO_LIMIT
from poolsieve.designs import Pooling

IMPOSSIBLE = 1e3
"""Cost that stands for −log 0: it outweighs any evidence, but not a certain prior."""


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
        costs = -likelihoods_of(readings, self.noise, design.pool_size)
        costs = np.minimum(costs, IMPOSSIBLE)
        x, objective, proven = least_cost(
            np.ascontiguousarray(costs, dtype=np.float64),
            -prior_log_odds(priors),
            design,
            NO_LIMIT if self.node_limit is None else int(self.node_limit),
        )
        return Decoding(x.astype(np.float64), x, proven, objective)
