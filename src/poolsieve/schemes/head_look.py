"""The cheap head, which looks at front features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.bundles.config import FRONT_GRAPH, HEAD_GRAPH, BundleConfig
from poolsieve.schemes.cost_model import FRONT, HEAD, Part, Price
from poolsieve.schemes.likelihood_model import Likelihoods
from poolsieve.schemes.look import Look
from poolsieve.schemes.runner import Chunk, Images
from poolsieve.schemes.stages import register_stage


@register_stage("head")
@dataclass(frozen=True)
class Head(Look):
    """The cheap head judges front features, which pools and tests go on from.

    Without bounds it gives pools their priors; a bundle whose head is not calibrated then does without.
    """

    @property
    def called(self) -> str:
        """Which head."""
        return "the cheap head"

    def log_likelihoods(self, chunk: Chunk, images: Images) -> NDArray[np.float64]:
        """By the head's calibrated logits."""
        return chunk.likelihoods.of_heads(chunk.head_logits(images))

    def known(self, likelihoods: Likelihoods) -> bool:
        """Whether the head is calibrated."""
        return likelihoods.knows_head

    def leaving(self, band: tuple[float, float], prevalence: float) -> dict[str, float] | None:
        """Bounds in place of none: what lies above the band is tested, what lies below it is clear."""
        if self.bounded:
            return None
        floor, cut = (float(scipy.special.expit(ratio + scipy.special.logit(prevalence))) for ratio in band)
        return {"test_above": cut} | ({"clear_below": floor} if floor > 0 else {})

    def graphs(self, config: BundleConfig) -> list[str]:
        """Front and head."""
        return [FRONT_GRAPH, HEAD_GRAPH]

    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """Front and head for each image."""
        return (FRONT, HEAD)
