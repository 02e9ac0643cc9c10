"""A small network on images at a fraction of their size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.config import FRONT_GRAPH, GLANCE_GRAPH, BundleConfig
from poolsieve.schemes.cost_model import FRONT, Part, Price, register_part
from poolsieve.schemes.likelihood_model import Likelihoods
from poolsieve.schemes.look import BOUNDS, Look
from poolsieve.schemes.runner import Chunk, Images
from poolsieve.schemes.stages import register_stage

GLANCE = register_part(Part("glance", "glances", "glance at a shrunken image", ("glance",)))


@register_stage("glance")
@dataclass(frozen=True)
class Glance(Look):
    """A glance at the shrunken image; only images that it leaves have a front.

    Where the front itself shrinks images and the individual network does not go on from it, the glance does:
    it is the rest of a network whose first blocks other looks and pools share.
    """

    @property
    def called(self) -> str:
        """A look at what was shrunken."""
        return "the look at it small"

    @property
    def way(self) -> str:
        """At what it looks."""
        return "at it small"

    @property
    def first_look(self) -> str:
        """That nothing was seen of the whole image yet."""
        return "looked at small first"

    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Also lower bounds than other looks have: most images look clear at a glance."""
        return {"clear_below": (3e-5, 1e-4, *BOUNDS)} if self.bounded else {}

    def log_likelihoods(self, chunk: Chunk, images: Images) -> NDArray[np.float64]:
        """By the glance's calibrated logits."""
        seen = chunk.features_of(images) if chunk.meter.price.individual else chunk.view(images, small=True)
        with chunk.meter.time(GLANCE.name):
            chunk.meter.runs[GLANCE.name] += len(images)
            logits = chunk.networks.glance(seen)
        return chunk.likelihoods.of_glances(logits)

    def known(self, likelihoods: Likelihoods) -> bool:
        """Whether there is a glance that is calibrated."""
        return likelihoods.knows_glance

    def graphs(self, config: BundleConfig) -> list[str]:
        """The glance, and the front if it goes on from there."""
        return [FRONT_GRAPH, GLANCE_GRAPH] if config.joined else [GLANCE_GRAPH]

    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """A glance for each image."""
        return (FRONT, GLANCE) if price.individual else (GLANCE,)
