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
from poolsieve.engines.base import FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.evaluation.pool_memory import PoolMemory


@dataclass(frozen=True)
class ImageRecords:
    """What the networks say of each distinct image.

    Attributes:
        features: Front features, most often mapped from disk.  # (distinct, C, H, W)
        gates: Gates.  # (distinct, 1, H, W)
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
        engine: Reads pools.
        memory: Remembers readings of pools; None computes them each time.
        vectors: Also give (and remember) the vectors of pools, which are many numbers.
    """

    def __init__(
        self,
        records: ImageRecords,
        engine: PoolReader,
        memory: PoolMemory | None = None,
        *,
        vectors: bool = False,
    ) -> None:
        self._records, self._engine, self._memory, self._vectors = records, engine, memory, vectors

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
        """Recorded outputs of the individual network."""
        return NetworkOutput(self._records.logits[features], self._records.vectors[features])

    def pooled(
        self, features: NDArray[Any], gate: NDArray[Any] | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """What the engine says of pools; a gate means that merging is gated."""
        members = np.where(pools == NO_IMAGE, NO_IMAGE, features[pools])

        def compute() -> NetworkOutput:
            gates = None if gate is None else self._records.gates
            return self._engine.pooled(self._records.features, gates, members, pool_size)

        if self._memory is None:
            return compute()
        label = f"pools of {pool_size} with counts{' and vectors' if self._vectors else ''}"

        def table() -> NDArray[np.float32]:
            output = compute()
            counts = output.logits.argmax(axis=1) if output.counts is None else output.counts
            parts = [output.logits, counts[:, None].astype(np.float32)]
            return np.concatenate([*parts, output.vectors] if self._vectors else parts, axis=1)

        kept = self._memory.recall(members, label, table)
        counts = kept[:, pool_size + 1].astype(np.int64)
        return NetworkOutput(kept[:, : pool_size + 1], kept[:, pool_size + 2 :], counts)
