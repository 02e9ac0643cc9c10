"""Bundles, engines and moderators with the networks of `poolsieve.schemes.planted`, which see the truth.

They are for tests about what is decided and what it costs, where the right answer is known exactly.
"""

from types import SimpleNamespace

import numpy as np
from PIL import Image

from poolsieve.engines import NetworkOutput
from poolsieve.moderation import Moderator
from poolsieve.planning.plans import Plan
from poolsieve.schemes import list_schemes, make_scheme
from poolsieve.schemes.planted import (
    COST,
    ROC,
    SIDE,
    PlantedNetworks,
    flat_scaling,
    is_bad,
    planted_calibration,
    planted_config,
    planted_pixels,
)
from poolsieve.statistics import Estimate

# The package's own, which tests take from here too.
__all__ = ["COST", "ROC", "SIDE", "flat_scaling", "planted_pixels"]


def planted_bundle(pool_sizes=(4, 8), merge="gated", head=True):
    return SimpleNamespace(
        name="planted",
        hash="ab" * 32,
        config=planted_config(pool_sizes, merge),
        calibration=planted_calibration(pool_sizes, head=head),
        has_recordings=False,
    )


class PlantedEngine(PlantedNetworks):
    """Perfect networks, of which all but the individual one can be fooled.

    Args:
        delusions: Images (by their second pixel) that glance, head and pools take for bad.
    """

    def __init__(self, *, delusions=(), **settings):
        super().__init__(**settings)
        self.delusions = list(delusions)
        self.gates = []

    def looks_bad(self, images):
        return is_bad(images) | np.isin(images[:, 0, 0, 1], self.delusions)

    def pooled(self, features, gate, pools, pool_size):
        self.gates.append(gate is not None)
        return super().pooled(features, gate, pools, pool_size)


class TwoInEveryPool(PlantedEngine):
    """Reads two bad images in every pool, which fits nothing: an exact search would take hours."""

    def pooled(self, features, gate, pools, pool_size):
        return NetworkOutput(np.tile(np.eye(pool_size + 1)[2], (len(pools), 1)), np.zeros((len(pools), 1)))


class OneInSomePools(PlantedEngine):
    """Reads one bad image in two of three pools: as likely at a prevalence of .1, but they fit nothing."""

    def pooled(self, features, gate, pools, pool_size):
        counts = (np.arange(len(pools)) % 3 > 0).astype(int)
        return NetworkOutput(np.eye(pool_size + 1)[counts], np.zeros((len(pools), 1)))


class SomeInPools(PlantedEngine):
    """Cannot count: reads one bad image wherever there are any, as of a burst of one scene."""

    def pooled(self, features, gate, pools, pool_size):
        output = super().pooled(features, gate, pools, pool_size)
        counts = np.minimum(output.logits.argmax(axis=1), 1)
        return NetworkOutput(self.count_confidence * np.eye(pool_size + 1)[counts], output.vectors)


def write_images(folder, bad):
    """PNG files with planted truth, one for each image, named by number."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, pixels in enumerate(planted_pixels(bad)):
        files.append(folder / f"{number:04d}.png")
        Image.fromarray(pixels).save(files[-1])
    return files


def planted_moderator(scheme="adaptive", *, seed=7, engine=None, frames=1, **parameters):
    bundle = planted_bundle()
    made = make_scheme(scheme, bundle.config.pool_sizes, **parameters)
    return Moderator(bundle, engine or PlantedEngine(), made, seed=seed, reading_threads=2, frames=frames)


class Doubting(PlantedEngine):
    """A head and a glance that cannot tell of every fifth image (by its second pixel) whether it is bad."""

    def __init__(self, **settings):
        super().__init__(doubts=5, **settings)


LIMITS = {"test_above": 0.1, "clear_below": 0.005, "pools_per_image": 1, "threshold": 0.4}
TWO_SIZES = {"pool_size": 4, "large_below": 0.005, "large_pool_size": 8, "pools_per_image": 1}
WAYS = {name: (name, {}) for name in list_schemes()} | {
    "adaptive with limits": ("adaptive", LIMITS),
    "adaptive with two sizes": ("adaptive", TWO_SIZES),
    "auto": None,
}
"""Every way to decide about images: all schemes, options that change what is pooled, and changing plans."""


def planted_plans():
    """A glance, pools of two sizes and individual tests take turns."""
    sure = Estimate(1.0, 1.0, 1.0)
    choices = [(0.03, "glance", {}), (0.2, "adaptive", TWO_SIZES), (0.5, "individual", {})]
    return [Plan(name, {"chunk": 104, **own}, p, sure, sure, sure, sure) for p, name, own in choices]


def moderator_by(way, *, seed=7, frames=1):
    """A moderator for one of `WAYS`."""
    bundle = planted_bundle()
    if WAYS[way] is None:
        return Moderator(bundle, Doubting(), planted_plans(), seed=seed, reading_threads=2, frames=frames)
    name, parameters = WAYS[way]
    return planted_moderator(name, engine=Doubting(), seed=seed, frames=frames, **parameters)
