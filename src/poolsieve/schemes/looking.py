"""A cheap look at every image, and the individual network for those that it does not clear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.base import Interval, parameter
from poolsieve.schemes.base import BY_INDIVIDUAL, Decision, Scheme
from poolsieve.schemes.evidence import posterior
from poolsieve.schemes.runner import Chunk


@dataclass(frozen=True)
class LookingScheme(Scheme):
    """A scheme whose first look clears images, or flags them if it may.

    Attributes:
        prevalence: Expected share of bad images.
        clear_below: Images whose posterior by the first look is below this are clear.
        flag_above: Images whose posterior by the first look is above this are flagged at once; with 1 it
            never flags alone.
    """

    prevalence: float = parameter(0.01, Interval(low=1e-6, high=0.5))
    clear_below: float = parameter(0.001, Interval(low=0, high=1))
    flag_above: float = parameter(1.0, Interval(low=0, high=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flag_above < self.clear_below:
            raise ValueError(
                f"{self.name}: flag_above={self.flag_above} lies below clear_below={self.clear_below}"
            )

    def _decide_after(self, chunk: Chunk, evidence: NDArray[np.float64], looked_by: str) -> Decision:
        """Test what the look leaves.

        Args:
            chunk: The images.
            evidence: Log-likelihoods (clear, bad) by the look.  # (k, 2)
            looked_by: Who decided about the others.
        """
        priors = posterior(self.prevalence, evidence)
        scores, flags = priors.copy(), priors > self.flag_above
        decided_by = np.full(len(chunk), looked_by, dtype="<U10")
        doubtful = np.flatnonzero((priors >= self.clear_below) & ~flags)
        logits = chunk.test(doubtful)
        scores[doubtful] = chunk.evidence.image_scores(logits)
        flags[doubtful] = scores[doubtful] > self.threshold
        decided_by[doubtful] = BY_INDIVIDUAL
        evidence[doubtful] = chunk.evidence.of_images(logits)
        sizes = np.ones(len(chunk), dtype=np.int64)
        return Decision(scores, flags, decided_by, evidence, sizes, 1.0, priors=priors)
