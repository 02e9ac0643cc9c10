"""Networks that err: what an image looks like to each of them is written into its pixels."""

import numpy as np
from planted import PlantedEngine, planted_bundle, planted_pixels
from scipy.special import ndtri

from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.export.recording import record_readings
from poolsieve.schemes import LikelihoodModel


class NoisyEngine(PlantedEngine):
    """Head, individual network and pools with errors of each image's own.

    Args:
        head: Distance of bad from clear images in the head's eyes, in standard deviations.
        pools: How clearly pools see a bad image; 0 makes them useless.
    """

    def __init__(self, head=2.0, pools=1.0):
        super().__init__()
        self.distance, self.clarity = head, pools

    def front(self, images):
        bad = images[:, 0, 0, 0].astype(np.float32) / 255
        noise = ndtri((images[:, 0, 0, 1:].astype(np.float32) + 0.5) / 256)  # (n, 2)
        second = ndtri((images[:, 1, 1, 1].astype(np.float32) + 0.5) / 256)
        seen = np.stack([bad, noise[:, 0], noise[:, 1], second], axis=1)
        return FrontFeatures(seen[:, :, None, None].astype(np.float32))

    def head(self, features):
        bad, noise = features[:, 0, 0, 0], features[:, 1, 0, 0]
        logits = self.distance * (self.distance * (bad - 0.5) + noise)  # the log-likelihood ratio
        return HeadOutput(np.ones((len(features), 1, 1, 1), dtype=np.float32), logits.astype(np.float32))

    def individual(self, features):
        bad, noise = features[:, 0, 0, 0], features[:, 2, 0, 0]
        signed = 2 * (4 * (bad - 0.5) + noise)
        return NetworkOutput(np.stack([-signed, signed], axis=1).astype(np.float32), features[:, :, 0, 0])

    def pooled(self, features, gate, pools, pool_size):
        bad, noise = features[:, 0, 0, 0], features[:, 3, 0, 0]
        light = np.append(bad * np.clip(1 + 0.3 * noise, 0, 2) + 0.05 * (1 - bad) * np.maximum(noise, 0), 0)
        seen = light[pools].sum(axis=1)
        counts = np.arange(pool_size + 1)
        logits = -4 * self.clarity * (seen[:, None] - counts) ** 2
        return NetworkOutput(logits.astype(np.float32), np.zeros((len(pools), 1), dtype=np.float32))


def noisy_pixels(bad, seed):
    pixels = planted_pixels(bad)
    pixels[..., 1:] = np.random.default_rng(seed).integers(0, 256, (*pixels.shape[:3], 2), dtype=np.uint8)
    return pixels


def record(engine, *, bad=150, clear=600, noisy=True, **kinds):
    """A planted bundle and recordings of it."""
    bundle = planted_bundle(**kinds)
    truth = np.random.default_rng(5).permutation(np.arange(bad + clear) < bad)
    pixels = noisy_pixels(truth, 1) if noisy else planted_pixels(truth)
    features = engine.front(pixels).features
    likelihoods = LikelihoodModel(bundle.calibration)
    return bundle, record_readings(engine, likelihoods, features, truth, bundle.config.pool_sizes, gated=True)
