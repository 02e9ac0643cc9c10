"""DD and SCOMP, standard decoders of binary group testing (Aldridge, Baldassini and Johnson 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.base import Decoder, Decoding, register_decoder
from poolsieve.decoders.binary_evidence import possibly_bad
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


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
