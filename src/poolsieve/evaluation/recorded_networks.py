"""Networks whose answers about single images are recorded, so that a mixture costs its pools only.

To a scheme they look like any engine. An "image" is the number of a distinct image, its "features" are that
same number, and only pools are computed, from recorded front features. Every scheme of `poolsieve.schemes`
thus runs as it does in moderation, with the same meter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs import NO_IMAGE
from poolsieve.engines.engine import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.evaluation.pool_cache import PoolCache
from poolsieve.outliers import OutlierReadings


@dataclass(frozen=True)
class ImageRecords:
    """What the networks say of each distinct image.

    Attributes:
        features: Front features, most often mapped from disk.  # (distinct, C, H, W)
        gates: Gates, and what is tallied.  # (distinct, 1 + K, H, W)
        head_logits: The cheap head's logits.  # (distinct,)
        logits: The individual network's logits.  # (distinct, 2)
        vectors: The individual network's vectors.  # (distinct, F)
        glances: Logits at a glance; 0 where the networks have none.  # (distinct,)
    """

    features: NDArray[np.float32]
    gates: NDArray[np.float32]
    head_logits: NDArray[np.float32]
    logits: NDArray[np.float32]
    vectors: NDArray[np.float32]
    glances: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.logits)


class PoolReader(Protocol):
    """The part of an engine that reads pools."""

    def pooled(
        self,
        features: NDArray[np.float32],
        gate: NDArray[np.float32] | None,
        pools: NDArray[np.integer],
        pool_size: int,
    ) -> NetworkOutput:
        """Logits of the counts of pools."""


class RecordedNetworks:
    """Answers from records; see `poolsieve.schemes.runner.Networks`.

    Args:
        records: What is known of the distinct images.
        engine: Reads pools; like the records it gives the networks' own outputs.
        cache: Keeps readings of pools; None keeps them in this process only.
        outliers: How outputs are read by the density of their vectors; None for classification.
    """

    def __init__(
        self,
        records: ImageRecords,
        engine: PoolReader,
        cache: PoolCache | None = None,
        *,
        outliers: OutlierReadings | None = None,
    ) -> None:
        self._records, self._engine, self._outliers = records, engine, outliers
        self._cache = PoolCache() if cache is None else cache
        self._logits = records.logits
        if outliers is not None:
            self._logits, _ = outliers.individual.read(records.logits, records.vectors)

    def read_by(self, outliers: OutlierReadings) -> RecordedNetworks:
        """The same records, engine and cache with outputs read by other densities."""
        return RecordedNetworks(self._records, self._engine, self._cache, outliers=outliers)

    def front(self, images: NDArray[Any]) -> FrontFeatures:
        """Numbers of images as they are, in place of features.  # (k,) -> (k,)."""
        return FrontFeatures(np.asarray(images))

    def glance(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Recorded logits of a glance."""
        return self._records.glances[images]

    def head(self, features: NDArray[Any]) -> HeadOutput:
        """Recorded logits of the head; in place of gates again the numbers."""
        return HeadOutput(features, self._records.head_logits[features])

    def individual(self, features: NDArray[Any]) -> NetworkOutput:
        """Recorded outputs of the individual network, as they are read."""
        return NetworkOutput(self._logits[features], self._records.vectors[features])

    def pooled(
        self, features: NDArray[Any], gate: NDArray[Any] | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """What is read of pools; a gate means that merging is gated. Vectors are not kept.  # (m, 0)."""
        members = np.where(pools == NO_IMAGE, NO_IMAGE, features[pools])
        gates = None if gate is None else self._records.gates
        reading = None if self._outliers is None else self._outliers.counting[pool_size]
        label = f"pools of {pool_size}" + (f", {reading.mixture.digest}" if reading else "")

        def compute(asked: NDArray[np.integer]) -> NDArray[np.float32]:
            output = self._engine.pooled(self._records.features, gates, asked, pool_size)
            if reading is None:
                return output.logits
            scores = reading.mixture.scores(output.vectors)
            return np.column_stack([output.logits, scores.astype(np.float32)])

        kept = self._cache.recall(members, label, compute)
        nothing = np.empty((len(kept), 0), dtype=np.float32)
        if reading is None:
            return NetworkOutput(kept, nothing)
        logits, counts = reading.judge(kept[:, :-1], kept[:, -1])
        return NetworkOutput(logits, nothing, counts)
