"""Fast decoders of quantitative group testing, after Gebhard, Hahn-Klimroth, Kaaser and Loick (2019).

Both rest on the neighbourhood sum of an image, Ψ_j = Σ y_q over its pools: a bad image adds one to each of
its pools, a clear image sees only what its pool-mates add. The paper that poolsieve starts from names these
algorithms as future work. The originals know the number of bad images and use dense random pools; here that
number is estimated from the readings, and chance is taken out pool by pool, so any design will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.decoder import Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.kernels.greedy import peel_counts
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


@register_decoder("quantitative-threshold")
@dataclass(frozen=True)
class QuantitativeThreshold(Decoder):
    """Flag images whose neighbourhood sum is nearer to that of a bad image than to that of a clear one.

    The score is (Ψ_j − E[Ψ | clear]) / (E[Ψ | bad] − E[Ψ | clear]), where the expectations spread the
    estimated number of bad images evenly over all others; 0 is what a clear image shows on average, 1 a bad
    one. An image in no pool, or with all others in each of
    its pools, scores 0.

    Attributes:
        threshold: Score above which an image is flagged.
    """

    threshold: float = parameter(0.65, Interval())

    thresholds_scores: ClassVar = True
    reads_counts: ClassVar = True
    default_grid: ClassVar = {
        "threshold": (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2, 1.3, 1.5)
    }

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        weights = design.image_weights
        neighbourhood = readings.counts @ design.sparse  # (chunks, n)
        # Every bad image is counted once in each of its pools.
        total = readings.counts.sum(axis=1, keepdims=True) / max(weights.mean(), 1e-9)
        mates = np.maximum(design.pool_sizes - 1, 0) @ design.sparse  # (n,) pool-mates of each image
        others = max(design.images - 1, 1)
        if_clear = mates * np.minimum(total / others, 1.0)
        lift = weights - mates / others  # 0 if every other image is in every pool: the sum then says nothing
        informative = (weights > 0) & (lift > 1e-9)
        scores = np.where(informative, (neighbourhood - if_clear) / np.where(informative, lift, 1.0), 0.0)
        return Decoding(scores, scores > self.threshold, solved=np.ones(readings.chunks, dtype=bool))


@register_decoder("greedy-counts")
@dataclass(frozen=True)
class GreedyCounts(Decoder):
    """Take the image with the largest neighbourhood sum, subtract it from its pools, and go on.

    An image is taken while that lowers ‖y − Φx‖², i.e. while what its pools still hold exceeds half their
    number by more than `margin`; of several, the one whose least pool holds most, then the first. The score
    of a flagged image is 1, of any other the share of its pools' number that they still hold, at most 1.

    Attributes:
        margin: What an image's pools must hold beyond half their number.
    """

    margin: float = parameter(0.5, Interval(low=0))

    reads_counts: ClassVar = True
    default_grid: ClassVar = {"margin": (0.0, 0.5, 1.0, 1.5, 2.0)}

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        scores, flags = peel_counts(readings.counts, float(self.margin), design.pools_of)
        return Decoding(scores, flags, solved=np.ones(readings.chunks, dtype=bool))
