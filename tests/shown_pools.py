"""A decision by pools and the page that shows it, for tests with and without a browser."""

import numpy as np
from PIL import Image

from poolsieve.moderation import pools_page
from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, make_scheme
from poolsieve.schemes.planted import COST, PlantedNetworks, planted_calibration, planted_pixels

BAD = (17, 60)


def pooled_decision():
    """A hundred images, two of them bad, by the paper's pools."""
    pixels = planted_pixels(np.isin(np.arange(100), BAD))
    chunk = Chunk(
        PlantedNetworks(),
        LikelihoodModel(planted_calibration((4, 8))),
        CostMeter(COST),
        pixels,
        np.arange(100),
        100,
        gated=True,
    )
    return make_scheme("oneshot", (4, 8), prevalence=0.02).decide(chunk, np.random.default_rng(0))


def page_of(decision, names=None):
    names = names or [f"{number}.jpg" for number in range(100)]
    return pools_page(decision, names, [Image.new("RGB", (8, 8))] * 100, "Pools")
