"""A stage of your own: glance at every image and at its mirror image, and clear by both.

    python examples/both_ways.py

checks that it keeps the contract of stages, and prints nothing if it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.config import GLANCE_GRAPH, BundleConfig
from poolsieve.schemes import Scheme, Test, check_scheme, register_stage
from poolsieve.schemes.cost_model import Part, Price, register_part
from poolsieve.schemes.look import Look
from poolsieve.schemes.runner import Chunk, Images

PAIR = register_part(Part("both_ways", "pairs of glances", "glances both ways", ("glance", "glance")))


@register_stage("both_ways")
@dataclass(frozen=True)
class BothWays(Look):
    """Glances at an image and at its mirror image; `Look` has the bounds."""

    def log_likelihoods(self, chunk: Chunk, images: Images) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) of images.  # (len(images), 2)."""
        pixels = chunk.view(images)  # (len(images), S, S, 3)
        chunk.meter.runs[PAIR.name] += len(images)  # whatever is run is counted
        logits = (chunk.networks.glance(pixels) + chunk.networks.glance(pixels[:, :, ::-1])) / 2
        return chunk.likelihoods.of_glances(logits)

    def graphs(self, config: BundleConfig) -> list[str]:
        """Files of the bundle that it runs."""
        return [GLANCE_GRAPH]

    def parts(self, price: Price, *, gated: bool) -> tuple[Part, ...]:
        """What it runs once for each image."""
        return (PAIR,)


if __name__ == "__main__":
    check_scheme(Scheme((BothWays(clear_below=0.001), Test())))
