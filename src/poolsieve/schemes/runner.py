"""Running networks on one chunk of images: everything that costs goes through here and is metered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import Readings
from poolsieve.designs import NO_IMAGE, Pooling
from poolsieve.schemes.cost_model import FRONT, HEAD, POOLS, RETESTS, CostMeter
from poolsieve.schemes.likelihood_model import Likelihoods

if TYPE_CHECKING:
    from poolsieve.engines import FrontFeatures, HeadOutput, NetworkOutput

Features = NDArray[np.float32]
Images = NDArray[np.intp]
"""Numbers of readable images of a chunk."""


class Networks(Protocol):
    """What a scheme needs of an engine (`poolsieve.engines`); recordings answer it as well."""

    def front(self, images: NDArray[np.uint8]) -> FrontFeatures:
        """Front features of images."""

    def glance(self, images: NDArray[np.uint8] | Features) -> NDArray[np.float32]:
        """Logits of images at a glance, by their front features if the glance goes on from there."""

    def head(self, features: Features) -> HeadOutput:
        """Gate and head logits of images."""

    def individual(self, features: Features | NDArray[np.uint8]) -> NetworkOutput:
        """Logits (clear, bad) of images, by their pixels if the network looks at them itself."""

    def pooled(
        self, features: Features, gate: Features | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """Logits of the counts of pools."""


class Pixels(Protocol):
    """Images whose pixels are read when a stage looks at them, as large as it needs them."""

    def __len__(self) -> int:
        """Number of images."""

    def view(self, images: Images, *, small: bool) -> NDArray[np.uint8]:
        """What a network is given of images, `small` if it shrinks them.  # (len(images), S, S, 3)."""


class _Kept:
    """Arrays with a row for each image, of which those are computed that are asked for, and once."""

    def __init__(self, images: int) -> None:
        self._known = np.zeros(images, dtype=bool)
        self._rows: tuple[NDArray[np.generic], ...] | None = None

    def missing(self, images: Images) -> Images:
        return images[~self._known[images]]

    def store(self, images: Images, *values: NDArray[np.generic]) -> None:
        if self._rows is None and len(images) == len(self._known):
            self._rows = values  # all at once, as they mostly are
        else:
            if self._rows is None:
                shapes = [(len(self._known), *value.shape[1:]) for value in values]
                self._rows = tuple(
                    np.zeros(shape, value.dtype) for shape, value in zip(shapes, values, strict=True)
                )
            for rows, value in zip(self._rows, values, strict=True):
                rows[images] = value
        self._known[images] = True

    def take(self, number: int) -> NDArray[np.generic]:
        assert self._rows is not None
        return self._rows[number]


class Chunk:
    """The readable images of one chunk, with whatever has been computed of them.

    Front features and head outputs are computed for images when they are first asked for, and once.

    Args:
        networks: An engine.
        likelihoods: What its outputs are worth.
        meter: Counts what is run.
        pixels: The images, or where to get them.  # (k, S, S, 3)
        places: Their positions in the chunk.  # (k,)
        size: Positions in the chunk, those of unreadable images included.
        gated: Whether features are multiplied by the gate before they are merged.
        small_front: Whether the front shrinks images, so that it is given small views of them.

    Attributes:
        networks: The engine.
        likelihoods: What the outputs are worth.
        meter: Counts what is run.
        pixels: The images.
        size: Positions in the chunk.
    """

    def __init__(
        self,
        networks: Networks,
        likelihoods: Likelihoods,
        meter: CostMeter,
        pixels: NDArray[np.uint8] | Pixels,
        places: Images,
        size: int,
        *,
        gated: bool,
        small_front: bool = False,
    ) -> None:
        self.networks, self.likelihoods, self.meter = networks, likelihoods, meter
        self.pixels, self._places, self.size = pixels, places, size
        self._gated, self._small_front = gated, small_front
        self._features, self._heads = _Kept(len(pixels)), _Kept(len(pixels))
        meter.images += len(pixels)

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def everyone(self) -> Images:
        """All readable images."""
        return np.arange(len(self))

    def view(self, images: Images, *, small: bool = False) -> NDArray[np.uint8]:
        """Pixels of images; `small` for a network that shrinks them.  # (len(images), S, S, 3)."""
        if isinstance(self.pixels, np.ndarray):
            return self.pixels if len(images) == len(self) else self.pixels[images]
        with self.meter.time("reading"):
            return self.pixels.view(images, small=small)

    def features(self, images: Images) -> Features:
        """Front features of all images, of which those of some are needed.  # (k, C, H, W)."""
        missing = self._features.missing(images)
        if len(missing):
            self._features.store(missing, self._run_front(missing))
        return self._features.take(0)  # type: ignore[return-value]

    def features_of(self, images: Images) -> Features:
        """Front features of some images.  # (len(images), C, H, W)."""
        features = self.features(images)
        return features if len(images) == len(self) else features[images]

    def _run_front(self, images: Images) -> Features:
        pixels = self.view(images, small=self._small_front)
        with self.meter.time("front"):
            self.meter.runs[FRONT.name] += len(images)
            return self.networks.front(pixels).features

    def _look(self, images: Images) -> None:
        missing = self._heads.missing(images)
        if len(missing):
            features = self.features_of(missing)
            with self.meter.time("head"):
                self.meter.runs[HEAD.name] += len(missing)
                output = self.networks.head(features)
            self._heads.store(missing, output.gate, output.logits)

    def head_logits(self, images: Images) -> NDArray[np.float32]:
        """What the cheap head says of images, higher for worse.  # (len(images),)."""
        self._look(images)
        return self._heads.take(1)[images]  # type: ignore[return-value]

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

    def arrange_some(self, design: Pooling, images: Images, rng: np.random.Generator) -> Pooling:
        """The design dealt over some of the readable images in a random order; the others are in no pool."""
        order = np.append(rng.permutation(images), NO_IMAGE)  # the last entry answers for empty places
        dealt = order[design.restrict(len(images)).pools]
        held = dealt[(dealt != NO_IMAGE).any(axis=1)]
        return Pooling(held, len(self), pool_size=design.pool_size)

    def read_pools(self, pooling: Pooling, images: Images | None = None) -> Readings:
        """What the counting network says of the pools.

        Args:
            pooling: The pools.
            images: Images that the front is run on, those of the pools among them; None for all.
        """
        images = self.everyone if images is None else images
        features, gate = self.features(images), None
        if self._gated:
            self._look(images)
            gate = self._heads.take(0)
        with self.meter.time("pools"):
            self.meter.runs[POOLS.name] += pooling.pool_count
            output = self.networks.pooled(features, gate, pooling.pools, pooling.pool_size)  # type: ignore[arg-type]
        return self.likelihoods.of_pools(output.logits, pooling.pool_sizes, output.counts)

    def test(self, images: Images, *, recompute: bool = False) -> NDArray[np.float32]:
        """Logits (clear, bad) of the individual network for some images.  # (len(images), 2).

        Args:
            images: Their numbers.
            recompute: Run the front again in place of using its features, as the paper's cost of two-round
                testing supposes.
        """
        if not len(images):
            return np.empty((0, 2), dtype=np.float32)
        seen: Features | NDArray[np.uint8]
        if self.meter.price.individual:
            seen = self.view(images)
        elif recompute or len(self._features.missing(images)) == len(images):
            seen = self._run_front(images)  # nobody needs them afterwards
        else:
            seen = self.features_of(images)
        with self.meter.time("retests"):
            self.meter.runs[RETESTS.name] += len(images)
            return self.networks.individual(seen).logits
