"""COMP and its noise-resistant form (paper, section "CS/GT Decoding Algorithms"; Chan et al. 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.base import Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.binary_evidence import positive_pools_of
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


@register_decoder("comp")
@dataclass(frozen=True)
class COMP(Decoder):
    """Combinatorial orthogonal matching pursuit: an image in a negative pool is clear, all others are bad.

    The score is the share of an image's pools that are positive; an image in no pool scores 1, since
    nothing clears it.
    """

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        positive = positive_pools_of(readings, design)
        weights = design.image_weights
        scores = np.where(weights > 0, positive / np.maximum(weights, 1), 1.0)
        return Decoding(scores, positive == weights, solved=np.ones(len(positive), dtype=bool))


@register_decoder("ncomp")
@dataclass(frozen=True)
class NCOMP(Decoder):
    """Noisy COMP: an image in strictly more than `t` positive pools is bad.

    With c pools per image, `t = c − 1` is COMP, and a larger one is refused: no image is in more than c
    positive pools. The score is the number of positive pools divided by c.
    """

    t: int = parameter(2, Interval(low=0, whole=True))

    default_grid: ClassVar = {"t": (0, 1, 2, 3)}

    def check_weight(self, pools_per_image: int) -> None:
        """Whether an image can be in more than t positive pools."""
        if self.t >= pools_per_image:
            raise ValueError(
                f"NCOMP: t={self.t} flags only what is in more than {self.t} positive pools, and no image is "
                f"in more than {pools_per_image}: take t below {pools_per_image} "
                f"(t={pools_per_image - 1} is COMP), or more pools per image"
            )

    def grid(self, design: Pooling) -> dict[str, tuple[Any, ...]]:
        """Values of t below c."""
        return {"t": tuple(t for t in self.default_grid["t"] if t < design.pools_per_image)}

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        positive = positive_pools_of(readings, design)
        scores = positive / design.pools_per_image
        return Decoding(scores, positive > self.t, solved=np.ones(len(positive), dtype=bool))
