"""Recordings in the place of networks: what was recorded of images and pools is said again, to any stage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.decoders import CountNoise, Readings
from poolsieve.engines.engine import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.schemes.cost_model import CostMeter, Price
from poolsieve.schemes.runner import Chunk

_LEAST_SHARE = 1e-12
"""Recorded scores are not taken to be nearer to certainty, so that logarithms stay finite."""
_NO_POOLS = "pools are not replayed; read those that were recorded by recorded_readings"


class Replay:
    """Answers as `poolsieve.schemes.runner.Networks` and `Likelihoods` do; an image is its number.

    Images are replayed one by one, without pools: those that were recorded are read by `recorded_readings`.

    Args:
        recordings: What the networks said.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def front(self, images: NDArray[Any]) -> FrontFeatures:
        """Numbers in place of features."""
        return FrontFeatures(np.asarray(images))

    def glance(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Log-likelihood ratios in place of logits."""
        assert self._recordings.glances is not None
        return self._recordings.glances[images]

    def head(self, features: NDArray[Any]) -> HeadOutput:
        """Log-likelihood ratios in place of logits, and no gates."""
        heads = self._recordings.heads
        return HeadOutput(features, np.zeros(len(features)) if heads is None else heads[features])  # type: ignore[arg-type]

    def individual(self, features: NDArray[Any]) -> NetworkOutput:
        """Scores in place of logits."""
        return NetworkOutput(self._recordings.scores[features], np.empty((len(features), 0)))  # type: ignore[arg-type]

    def pooled(
        self, features: NDArray[Any], gate: NDArray[Any] | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """Pools are not replayed."""
        raise NotImplementedError(_NO_POOLS)

    @property
    def knows_head(self) -> bool:
        """Whether a calibrated head was recorded."""
        return self._recordings.heads is not None

    @property
    def knows_glance(self) -> bool:
        """Whether a glance was recorded."""
        return self._recordings.glances is not None

    def of_heads(self, ratios: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad), up to a constant.  # (k,) -> (k, 2)."""
        return np.stack([np.zeros(len(ratios)), ratios], axis=1)

    of_glances = of_heads

    def image_scores(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """As they were recorded."""
        return scores.astype(np.float64)

    def of_images(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) where bad images are as frequent as among the recorded ones."""
        share = np.clip(scores.astype(np.float64), _LEAST_SHARE, 1 - _LEAST_SHARE)
        return np.log(np.stack([1 - share, share], axis=1))

    def of_pools(
        self, logits: NDArray[Any], sizes: NDArray[np.integer], counts: NDArray[np.integer] | None = None
    ) -> Readings:
        """Pools are not replayed."""
        raise NotImplementedError(_NO_POOLS)

    def count_noise(self, pool_size: int) -> CountNoise:
        """Pools are not replayed."""
        raise NotImplementedError(_NO_POOLS)


def replayed_images(recordings: Recordings, price: Price, *, gated: bool) -> Chunk:
    """All recorded images as one chunk, which stages can look at one by one."""
    replay = Replay(recordings)
    images: NDArray[Any] = np.arange(len(recordings.bad))
    return Chunk(replay, replay, CostMeter(price), images, images, len(images), gated=gated)


def recorded_readings(recording: PoolRecording, classes: int) -> Readings:
    """What was read of the first classes of pools, of every chunk."""
    table = recording.likelihoods[:, :classes].astype(np.float64)
    counts = recording.counts[:, :classes].reshape(len(table), -1).astype(np.int64)
    return Readings(counts, table.reshape(len(table), -1, table.shape[-1]))
