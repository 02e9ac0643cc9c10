"""Running a scheme over a mixture, as moderation would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.detection_measures import ImageCounts
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, Scheme
from poolsieve.schemes.cost_model import Price
from poolsieve.schemes.runner import Networks
from poolsieve.schemes.stages import BY_INDIVIDUAL


@dataclass(frozen=True)
class SchemeRun:
    """What a scheme decided about a mixture, and what that cost.

    Attributes:
        scores: Higher is worse.  # (N,)
        pool_scores: The decoder's score before any test of the image alone; NaN without pools.  # (N,)
        flags: Which images were declared bad.  # (N,)
        tested: Which images the individual network decided about.  # (N,)
        meter: Counts what was run; its seconds are those of this process, not of moderating.
    """

    scores: NDArray[np.float64]
    pool_scores: NDArray[np.float64]
    flags: NDArray[np.bool_]
    tested: NDArray[np.bool_]
    meter: CostMeter

    def ranks(self) -> NDArray[np.float64]:
        """Scores that put images in order whoever decided about them.  # (N,).

        Images that were tested individually lie between 0 and 1 by their score; those that were cleared
        without lie below, those flagged without above.
        """
        alone = np.where(self.flags, 1 + self.scores, self.scores - 1)
        result: NDArray[np.float64] = np.where(self.tested, self.scores, alone)
        return result

    def image_counts(self, mixture: Mixture) -> ImageCounts:
        """How often each distinct image was drawn and flagged."""
        return ImageCounts.count(mixture, self.flags)


def run_scheme(
    scheme: Scheme,
    mixture: Mixture,
    networks: Networks,
    likelihoods: LikelihoodModel,
    price: Price,
    *,
    gated: bool,
    seed: int,
) -> SchemeRun:
    """Decide about a mixture, chunk by chunk.

    Args:
        scheme: How to decide.
        mixture: About what.
        networks: Most often `RecordedNetworks`; they are given numbers of distinct images.
        likelihoods: What the networks' outputs are worth.
        price: Multiply-adds of the networks.
        gated: Whether features are multiplied by the gate before they are merged.
        seed: Decides who shares a pool with whom, as in `Moderator`.
    """
    meter = CostMeter(price)
    scores = np.empty(len(mixture))
    flags, tested = (np.empty(len(mixture), dtype=bool) for _ in range(2))
    pool_scores = np.full(len(mixture), np.nan)
    for number, places in enumerate(mixture.chunks(scheme.chunk_size)):
        images = mixture.images[places]
        chunk = Chunk(
            networks,
            likelihoods,
            meter,
            images,  # type: ignore[arg-type]  # numbers in place of pixels
            np.arange(len(images)),
            len(images),
            gated=gated,
        )
        decision = scheme.decide(chunk, np.random.Generator(np.random.PCG64([seed, number])))
        scores[places], flags[places] = decision.scores, decision.flags
        tested[places] = decision.decided_by == BY_INDIVIDUAL
        if decision.pool_scores is not None:
            pool_scores[places] = decision.pool_scores
    return SchemeRun(scores, pool_scores, flags, tested, meter)
