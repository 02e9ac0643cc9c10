"""Whether a chunk's readings go with the stated prevalence, and with what its pools can tell apart.

A burst of photographs of one scene, or images chosen to be read as bad in pools, make a chunk unlike what a
one-shot decoder reckons with: it then misses bad images and flags clean ones. Both show in the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.decoders import CountNoise, Readings
from poolsieve.designs import Pooling
from poolsieve.schemes.prevalence import PrevalenceEstimator

MOST_GAIN = 1.92
"""Log-likelihood that a chunk's own prevalence may gain over the stated one.

Half the 95% quantile of χ² with one degree of freedom; as only too many bad images matter, about 2.5% of
the chunks with the stated prevalence may exceed it. On validation images 4 of 300 did.
"""


@dataclass(frozen=True)
class Surprise:
    """A chunk whose readings are not what was to be expected.

    Attributes:
        prevalence: Its own, by maximum likelihood.
        images: Images in the chunk.
        reason: What is wrong with it, for people.
    """

    prevalence: float
    images: int
    reason: str

    def note(self, tested: int) -> str:
        """What a record says of the decision.

        Args:
            tested: Images that were tested individually.
        """
        return (
            f"its pools tell of about {self.prevalence * self.images:.0f} bad images among {self.images}, "
            f"{self.reason}; so {tested} doubtful ones were tested individually"
        )


def find_surprise(
    readings: Readings, pooling: Pooling, noise: CountNoise, prevalence: float
) -> Surprise | None:
    """What is unexpected in the counts of one chunk; None if nothing is.

    Counts are taken, with how often they err, and not the likelihoods that the network gives: images that
    disturb it mislead both, but counts decide what most decoders see.

    Args:
        readings: Of one chunk.
        pooling: Which images shared which pool.
        noise: How counts err.
        prevalence: The stated one.
    """
    sizes = pooling.pool_sizes
    estimator = PrevalenceEstimator()
    images = int(np.count_nonzero(pooling.image_weights))
    estimator.add(noise.log_likelihoods(readings.counts[0]), sizes, images / float(sizes.sum()))
    own = estimator.estimate()
    assert own is not None
    if own.value > prevalence and estimator.gain_over(prevalence) > MOST_GAIN:
        return Surprise(own.value, images, f"improbable at a prevalence of {prevalence:g}")
    # From here on every pool of a bad image holds another one on average.
    if own.value * (pooling.pool_size - 1) >= 1:
        reason = f"more than pools of {pooling.pool_size} can tell apart"
        return Surprise(own.value, images, reason)
    return None
