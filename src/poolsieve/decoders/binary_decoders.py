"""Decoders of binary group testing, which ask only whether a pool is positive.

COMP and its noise-resistant form (paper, section "CS/GT Decoding Algorithms"; Chan et al. 2011), DD and SCOMP
(Aldridge, Baldassini and Johnson 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.decoder import Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


def positive_pools_of(readings: Readings, design: Pooling) -> NDArray[np.int64]:
    """Number of positive pools that each image is in.  # (chunks, n)."""
    return (readings.counts > 0).astype(np.int64) @ design.sparse


def possibly_bad(readings: Readings, design: Pooling) -> NDArray[np.bool_]:
    """Images that are in no negative pool, the only ones that can be bad without noise.  # (chunks, n)."""
    return positive_pools_of(readings, design) == design.image_weights


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


@register_decoder("dd")
@dataclass(frozen=True)
class DD(Decoder):
    """Definite defectives: bad is only the image that alone can explain one of its positive pools.

    Scores are 1 for these, ½ for images that may or may not be bad, 0 for images in a negative pool.
    Without noise DD flags no clear image.
    """

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        possible = possibly_bad(readings, design)
        return _graded(_definitely_bad(readings, design, possible), possible)


@register_decoder("scomp")
@dataclass(frozen=True)
class SCOMP(Decoder):
    """Sequential COMP: DD, then ever more of the possible images until every positive pool is explained.

    Each step takes the image that explains most of the positive pools still unexplained, the first of
    several. With noise some pools may have no possible image; they stay unexplained. Scores as in DD.
    """

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        matrix = design.sparse
        possible = possibly_bad(readings, design)
        flags = _definitely_bad(readings, design, possible)
        unexplained = (readings.counts > 0) & ~((flags.astype(np.int32) @ matrix.T) > 0)
        active = np.flatnonzero(unexplained.any(axis=1))
        while len(active):
            gain = np.where(possible[active], unexplained[active].astype(np.int32) @ matrix, 0)
            best = gain.argmax(axis=1)
            useful = gain[np.arange(len(active)), best] > 0
            active, best = active[useful], best[useful]
            flags[active, best] = True
            for place in range(design.pools_per_image):
                pool = design.pools_of[best, place]
                unexplained[active[pool >= 0], pool[pool >= 0]] = False
            active = active[unexplained[active].any(axis=1)]
        return _graded(flags, possible)


def _definitely_bad(readings: Readings, design: Pooling, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Possible images that are the only possible one in some positive pool.  # (chunks, n)."""
    candidates = possible.astype(np.int32) @ design.sparse.T  # (chunks, m)
    decisive = ((readings.counts > 0) & (candidates == 1)).astype(np.int32)
    return possible & ((decisive @ design.sparse) > 0)


def _graded(flags: NDArray[np.bool_], possible: NDArray[np.bool_]) -> Decoding:
    scores = np.where(flags, 1.0, np.where(possible, 0.5, 0.0))
    return Decoding(scores, flags, solved=np.ones(len(flags), dtype=bool))
