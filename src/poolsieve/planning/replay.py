"""Recordings in the place of networks: what was recorded of images and pools is said again, to any stage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.decoders import CountNoise, Readings
from poolsieve.designs import Pooling
from poolsieve.engines.base import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.schemes.cost_model import CostMeter, Price
from poolsieve.schemes.runner import Chunk, Images

_LEAST_SHARE = 1e-12
"""Recorded scores are not taken to be nearer to certainty, so that logarithms stay finite."""


class Replay:
    """Answers as `poolsieve.schemes.runner.Networks` and `Likelihoods` do; an image is its number.

    Args:
        recordings: What the networks said.
        pools: The recording whose pools are read; None if none are.
        chunk: Which of its chunks.
    """

    def __init__(self, recordings: Recordings, pools: PoolRecording | None = None, chunk: int = 0) -> None:
        self._recordings, self._pools, self._chunk = recordings, pools, chunk

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
        """Log-likelihoods of counts, of recorded pools in their order; see `replayed_chunk`."""
        recording = self._pools
        assert recording is not None and recording.pool_size == pool_size, "other pools were recorded"
        readings = recorded_readings(recording, len(pools) // recording.layout.pools_per_class)
        assert readings.log_likelihoods is not None
        table = readings.log_likelihoods[self._chunk]
        return NetworkOutput(table, np.empty((len(table), 0)), readings.counts[self._chunk])  # type: ignore[arg-type]

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
        """Readings as they were recorded."""
        assert counts is not None
        return Readings(counts[None].astype(np.int64), logits[None])

    def count_noise(self, pool_size: int) -> CountNoise:
        """How recorded counts err."""
        assert self._pools is not None
        true = self._pools.layout.pooling.counts(self._recordings.bad[self._pools.images])
        return CountNoise.estimate(true, self._pools.counts.reshape(true.shape), pool_size)


class _RecordedChunk(Chunk):
    """A recorded chunk: its images are dealt into the pools that they were recorded in."""

    recording: PoolRecording

    def arrange(self, design: Pooling, rng: np.random.Generator) -> Pooling:
        return self.recording.layout.first(round(float(design.image_weights.max())))

    def arrange_some(self, design: Pooling, images: Images, rng: np.random.Generator) -> Pooling:
        raise ValueError(f"pools of {len(images)} of {len(self)} images were not recorded")


def replayed_images(recordings: Recordings, price: Price, *, gated: bool) -> Chunk:
    """All recorded images as one chunk, which stages can look at one by one."""
    return _chunk(Chunk, Replay(recordings), np.arange(len(recordings.bad)), price, gated)


def replayed_chunk(
    recordings: Recordings, pools: PoolRecording, chunk: int, price: Price, *, gated: bool
) -> Chunk:
    """A recorded chunk of images, as stages saw it or would have seen it.

    Args:
        recordings: What the networks said.
        pools: The recording that has the chunk.
        chunk: Its number.
        price: What the networks' parts cost.
        gated: Whether features are multiplied by the gate before they are merged.
    """
    made = _chunk(_RecordedChunk, Replay(recordings, pools, chunk), pools.images[chunk], price, gated)
    assert isinstance(made, _RecordedChunk)
    made.recording = pools
    return made


def _chunk(kind: type[Chunk], replay: Replay, images: NDArray[Any], price: Price, gated: bool) -> Chunk:
    places = np.arange(len(images))
    return kind(replay, replay, CostMeter(price), images, places, len(images), gated=gated)


def recorded_readings(recording: PoolRecording, classes: int) -> Readings:
    """What was read of the first classes of pools, of every chunk."""
    table = recording.likelihoods[:, :classes].astype(np.float64)
    counts = recording.counts[:, :classes].reshape(len(table), -1).astype(np.int64)
    return Readings(counts, table.reshape(len(table), -1, table.shape[-1]))
