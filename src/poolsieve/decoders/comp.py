"""COMP and its noise-resistant form (paper, section "CS/GT Decoding Algorithms"; Chan et al. 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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

    With c pools per image, `t = c − 1` is COMP. The score is the number of positive pools divided by c.
    """

    t: int = parameter(2, Interval(low=0, whole=True))

    default_grid: ClassVar = {"t": (0, 1, 2, 3)}

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        positive = positive_pools_of(readings, design)
        scores = positive / design.pools_per_image
        return Decoding(scores, positive > self.t, solved=np.ones(len(positive), dtype=bool))
