"""Networks that see the truth: an image is bad if its first pixel is bright.

They stand in for a bundle and an engine where a test is about what is decided and what it costs, so that the
right answer is known exactly.
"""

from types import SimpleNamespace

import numpy as np
from PIL import Image

from poolsieve.bundles import MultiplyAdds
from poolsieve.calibration import Calibration, CountingCalibration, OutputScaling, RocCurve
from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.moderation import Moderator
from poolsieve.planning.plans import Plan
from poolsieve.schemes import list_schemes, make_scheme
from poolsieve.statistics import Estimate

SIDE = 8
COST = MultiplyAdds(front=220, back=770, final=10, gate=10, glance=200)
ROC = RocCurve((0.0, 0.0, 1.0), (0.0, 1.0, 1.0), 1.0)


def flat_scaling(outputs):
    return OutputScaling(1.0, (0.0,) * outputs, (1 / outputs,) * outputs)


def calibration(pool_sizes, head=True):
    counting = {
        size: CountingCalibration(flat_scaling(size + 1), tuple(map(tuple, np.eye(size + 1, dtype=int))))
        for size in pool_sizes
    }
    looks = flat_scaling(2) if head else None
    return Calibration(flat_scaling(2), ROC, looks, ROC, counting, looks, ROC)


def planted_bundle(pool_sizes=(4, 8), merge="gated", head=True):
    config = SimpleNamespace(
        task="planted",
        input_size=SIDE,
        squaring="stretch",
        pool_sizes=tuple(pool_sizes),
        merge=merge,
        cost=COST,
    )
    return SimpleNamespace(
        name="planted",
        hash="ab" * 32,
        config=config,
        calibration=calibration(pool_sizes, head),
        has_recordings=False,
    )


class PlantedEngine:
    """Perfect networks with adjustable confidence; remembers what it was asked.

    Args:
        confidence: Logit of the individual network's answer.
        count_confidence: Logit of the right count over all others.
        head_confidence: Logit of the head's answer.
        delusions: Images (by their second pixel) that the head and the pools take for bad.
    """

    name = "planted"

    def __init__(self, *, confidence=10.0, count_confidence=12.0, head_confidence=4.0, delusions=()):
        self.confidence, self.count_confidence = confidence, count_confidence
        self.head_confidence, self.delusions = head_confidence, set(delusions)
        self.rows = {"glance": 0, "front": 0, "head": 0, "individual": 0, "pooled": 0}
        self.gates = []

    def glance(self, images):
        self.rows["glance"] += len(images)
        bad = (images[:, 0, 0, 0] > 127) | np.isin(images[:, 0, 0, 1], list(self.delusions))
        return (self.head_confidence * (2.0 * bad - 1)).astype(np.float32)

    def front(self, images):
        assert images.dtype == np.uint8
        assert images.shape[1:] == (SIDE, SIDE, 3)
        self.rows["front"] += len(images)
        bad = (images[:, 0, 0, 0] > 127).astype(np.float32)
        fooled = np.isin(images[:, 0, 0, 1], list(self.delusions)).astype(np.float32)
        return FrontFeatures(np.stack([bad, np.maximum(bad, fooled)], axis=1)[:, :, None, None])

    def head(self, features):
        self.rows["head"] += len(features)
        logits = self.head_confidence * (2 * features[:, 1, 0, 0] - 1)
        return HeadOutput(np.ones((len(features), 1, 1, 1), dtype=np.float32), logits.astype(np.float32))

    def individual(self, features):
        self.rows["individual"] += len(features)
        signed = self.confidence * (2 * features[:, 0, 0, 0] - 1) / 2
        return NetworkOutput(np.stack([-signed, signed], axis=1).astype(np.float32), features[:, :, 0, 0])

    def pooled(self, features, gate, pools, pool_size):
        self.rows["pooled"] += len(pools)
        self.gates.append(gate is not None)
        assert pools.max() < len(features)
        seen = np.append(features[:, 1, 0, 0], 0)  # −1 finds the zero
        counts = seen[pools].sum(axis=1).astype(int)
        logits = self.count_confidence * np.eye(pool_size + 1, dtype=np.float32)[counts]
        return NetworkOutput(logits, np.zeros((len(pools), 1), dtype=np.float32))


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


def planted_pixels(bad, serial=None):
    """Images with planted truth.  # (n, S, S, 3)."""
    flags = np.asarray(bad, dtype=bool)
    pixels = np.zeros((len(flags), SIDE, SIDE, 3), dtype=np.uint8)
    pixels[..., 0] = np.where(flags, 255, 0)[:, None, None]
    pixels[..., 1] = (np.arange(len(flags)) if serial is None else np.asarray(serial))[:, None, None] % 256
    return pixels


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
    """A head that cannot tell of every fifth image (by its second pixel) whether it is bad."""

    def front(self, images):
        seen = super().front(images).features
        doubted = (images[:, 0, 0, 1] % 5 == 0).astype(np.float32)
        return FrontFeatures(np.concatenate([seen, doubted[:, None, None, None]], axis=1))

    def head(self, features):
        output = super().head(features)
        output.logits[features[:, 2, 0, 0] > 0] = 0
        return output


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
