"""The individual network on every image that is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from poolsieve.bundles.config import FRONT_GRAPH, INDIVIDUAL_GRAPH, BundleConfig
from poolsieve.parameters import Instance, Interval, parameter
from poolsieve.schemes.cost_model import FRONT, RETESTS, Part, Price, Work
from poolsieve.schemes.stages import BY_INDIVIDUAL, Stage, Undecided, register_stage


@register_stage("test")
@dataclass(frozen=True)
class Test(Stage):
    """A test of its own for every image that is left.

    Attributes:
        threshold: Score above which an image is flagged.
        recompute: Run the whole network although front features are there, as the paper's cost of two rounds
            supposes.
    """

    __test__: ClassVar = False  # pytest takes it for none of its own
    decides: ClassVar = True

    threshold: float = parameter(0.5, Interval(low=0, high=1))
    recompute: bool = parameter(False, Instance(bool))

    def look(self, undecided: Undecided) -> None:
        """Test what is open."""
        images, chunk = np.flatnonzero(undecided.open), undecided.chunk
        logits = chunk.test(images, recompute=self.recompute)
        scores = np.zeros(len(chunk))
        scores[images] = chunk.likelihoods.image_scores(logits)
        undecided.log_likelihoods[images] = chunk.likelihoods.of_images(logits)
        undecided.decide(undecided.open.copy(), scores, scores > self.threshold, BY_INDIVIDUAL)

    def graphs(self, config: BundleConfig) -> list[str]:
        """The individual network, and the front if it goes on from there."""
        return [INDIVIDUAL_GRAPH] if config.joined else [FRONT_GRAPH, INDIVIDUAL_GRAPH]

    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """The whole network for each image, or front and back."""
        return (RETESTS,) if price.individual else (FRONT, RETESTS)

    def reckon(self, work: Work, share: float, *, gated: bool) -> None:
        """Front and back; the front again where it is recomputed."""
        before = work.runs[FRONT.name]
        super().reckon(work, share, gated=gated)
        if self.recompute and not work.price.individual:
            work.runs[FRONT.name] = before + share
