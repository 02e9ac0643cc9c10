"""Running networks on one chunk of images: everything that costs goes through here and is metered."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import Readings
from poolsieve.designs import NO_IMAGE, Pooling
from poolsieve.schemes.cost import CostMeter
from poolsieve.schemes.evidence import Evidence

if TYPE_CHECKING:
    from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput

Features = NDArray[np.float32]


class Networks(Protocol):
    """What a scheme needs of an engine (`poolsieve.engines`)."""

    def front(self, images: NDArray[np.uint8]) -> FrontFeatures:
        """Front features of images."""

    def glance(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Logits of images at a glance."""

    def head(self, features: Features) -> HeadOutput:
        """Gate and head logits of images."""

    def individual(self, features: Features) -> NetworkOutput:
        """Logits (clear, bad) of images."""

    def pooled(
        self, features: Features, gate: Features | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """Logits of the counts of pools."""


class Chunk:
    """The readable images of one chunk, with whatever has been computed of them.

    Front features and head outputs are computed when first asked for, and once.

    Args:
        networks: An engine.
        evidence: What its outputs are worth.
        meter: Counts what is run.
        pixels: The images.  # (k, S, S, 3)
        places: Their positions in the chunk.  # (k,)
        size: Positions in the chunk, those of unreadable images included.
        gated: Whether features are multiplied by the gate before they are merged.

    Attributes:
        evidence: What the outputs are worth.
        size: Positions in the chunk.
    """

    def __init__(
        self,
        networks: Networks,
        evidence: Evidence,
        meter: CostMeter,
        pixels: NDArray[np.uint8],
        places: NDArray[np.intp],
        size: int,
        *,
        gated: bool,
    ) -> None:
        self._networks, self._meter, self._gated = networks, meter, gated
        self._pixels, self._places, self.size = pixels, places, size
        self.evidence = evidence
        meter.images += len(pixels)

    def __len__(self) -> int:
        return len(self._pixels)

    @property
    def meter(self) -> CostMeter:
        """Counts what is run."""
        return self._meter

    @cached_property
    def features(self) -> Features:
        """Front features of all images.  # (k, C, H, W)."""
        return self._run_front(self._pixels)

    def _run_front(self, pixels: NDArray[np.uint8]) -> Features:
        with self._meter.time("front"):
            self._meter.fronts += len(pixels)
            return self._networks.front(pixels).features

    @cached_property
    def _head(self) -> tuple[Features, NDArray[np.float32]]:
        features = self.features
        with self._meter.time("head"):
            self._meter.heads += len(features)
            output = self._networks.head(features)
            return output.gate, output.logits

    def glance_evidence(self) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) by a glance at the shrunken images.  # (k, 2)."""
        with self._meter.time("glance"):
            self._meter.glances += len(self)
            logits = self._networks.glance(self._pixels)
        return self.evidence.of_glances(logits)

    def head_evidence(self) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) by the cheap head.  # (k, 2)."""
        return self.evidence.of_heads(self._head[1])

    def head_logits(self) -> NDArray[np.float32]:
        """What the cheap head says of images, higher for worse.  # (k,)."""
        return self._head[1]

    def only(self, images: NDArray[np.intp]) -> Chunk:
        """Some of the images as a chunk, with what is known of them; the places of the others are empty."""
        some = copy.copy(self)
        some._pixels, some._places = self._pixels[images], self._places[images]
        if "features" in vars(self):
            vars(some)["features"] = self.features[images]
        if "_head" in vars(self):
            gate, logits = self._head
            vars(some)["_head"] = gate[images], logits[images]
        return some

    def arrange(self, design: Pooling, rng: np.random.Generator) -> Pooling:
        """The design dealt over the chunk in a random order, numbered by the readable images.

        A last chunk that is short gets the design restricted to its size. The place of an image that could
        not be read stays empty, so that all others are in the pools that they would be in anyway.
        """
        order = rng.permutation(self.size)  # position of each image of the design
        number = np.full(self.size + 1, NO_IMAGE)  # the last entry answers for empty places
        number[self._places] = np.arange(len(self))
        dealt = number[np.append(order, self.size)[design.restrict(self.size).pools]]
        held = dealt[(dealt != NO_IMAGE).any(axis=1)]
        return Pooling(held, len(self), pool_size=design.pool_size)

    def arrange_some(self, design: Pooling, images: NDArray[np.intp], rng: np.random.Generator) -> Pooling:
        """The design dealt over some of the readable images in a random order; the others are in no pool."""
        order = np.append(rng.permutation(images), NO_IMAGE)  # the last entry answers for empty places
        dealt = order[design.restrict(len(images)).pools]
        held = dealt[(dealt != NO_IMAGE).any(axis=1)]
        return Pooling(held, len(self), pool_size=design.pool_size)

    def read_pools(self, pooling: Pooling) -> Readings:
        """What the counting network says of the pools."""
        features, gate = self.features, self._head[0] if self._gated else None
        with self._meter.time("pools"):
            self._meter.pools += pooling.pool_count
            output = self._networks.pooled(features, gate, pooling.pools, pooling.pool_size)
        return self.evidence.of_pools(output.logits, pooling.pool_sizes, output.counts)

    def test(self, images: NDArray[np.intp], *, recompute: bool = False) -> NDArray[np.float32]:
        """Logits (clear, bad) of the individual network for some images.  # (len(images), 2).

        Where no front features are there yet, the front runs on these images alone.

        Args:
            images: Their numbers.
            recompute: Run the front again in place of using its cached features, as the paper's cost of
                two-round testing supposes.
        """
        if not len(images):
            return np.empty((0, 2), dtype=np.float32)
        known = "features" in vars(self) and not recompute  # cached, as somebody asked for them
        features = self.features[images] if known else self._run_front(self._pixels[images])
        with self._meter.time("retests"):
            self._meter.retests += len(images)
            return self._networks.individual(features).logits
