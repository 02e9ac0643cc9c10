"""Recorded readings as arrays, and their file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.pool_layout import PoolLayout

FORMAT = "1"
_POOL_PARTS = ("images", "likelihoods", "counts", "cut")


@dataclass(frozen=True)
class PoolRecording:
    """What the counting network said of pools of real images.

    Attributes:
        images: Which image stands at each place of each chunk.  # (chunks, n)
        likelihoods: Log-likelihood of every count, at most 0, class after class.
            # (chunks, classes, pools of a class, r + 1)
        counts: The network's readings.  # (chunks, classes, pools of a class)
        band: Log-likelihood ratios by the head of the images that were pooled: from the first to below the
            second. The others were left out, as if cleared or tested at once.
    """

    images: NDArray[np.int32]
    likelihoods: NDArray[np.float16]
    counts: NDArray[np.uint8]
    band: tuple[float, float] = (-np.inf, np.inf)

    @property
    def everyone(self) -> bool:
        """Whether all images were pooled, whatever the head said."""
        return bool(np.isinf(self.band).all())

    @property
    def pool_size(self) -> int:
        """Images in a pool."""
        return self.likelihoods.shape[3] - 1

    @property
    def classes(self) -> int:
        """The most pools per image that were recorded."""
        return self.likelihoods.shape[1]

    @cached_property
    def layout(self) -> PoolLayout:
        """How the images of each chunk were dealt into pools."""
        return PoolLayout(self.images.shape[1], self.pool_size, self.classes)


@dataclass(frozen=True)
class Recordings:
    """What a bundle's networks said of labelled images that they were not trained on.

    Attributes:
        bad: The truth.  # (images,)
        scores: By the individual network; higher is worse.  # (images,)
        heads: Log-likelihood ratio (bad to clear) by the cheap head; None if it is not calibrated.
            # (images,)
        pools: One for each pool size and cut.
        glances: Log-likelihood ratio (bad to clear) by a glance; None if there is none.  # (images,)
    """

    bad: NDArray[np.bool_]
    scores: NDArray[np.float32]
    heads: NDArray[np.float32] | None
    pools: tuple[PoolRecording, ...]
    glances: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        number = len(self.bad)
        parts = [part for part in (self.scores, self.heads, self.glances) if part is not None]
        if any(part.shape != (number,) or not np.isfinite(part).all() for part in parts):
            raise ValueError(
                f"scores, heads and glances must be finite numbers, one for each of {number} images"
            )
        if self.bad.all() or not self.bad.any():
            raise ValueError("recordings need bad and clear images")
        for pool in self.pools:
            _check_pools(pool, number)

    def to_bytes(self) -> bytes:
        """As a safetensors file."""
        from safetensors.numpy import save  # not at the top: help of commands comes without extras

        tensors: dict[str, NDArray[np.generic]] = {"bad": self.bad.astype(np.uint8), "scores": self.scores}
        if self.heads is not None:
            tensors["heads"] = self.heads
        if self.glances is not None:
            tensors["glances"] = self.glances
        for number, pool in enumerate(self.pools):
            for part in _POOL_PARTS:
                value = pool.band[1] if part == "cut" else getattr(pool, part)
                tensors[f"pools.{number}.{part}"] = np.atleast_1d(np.asarray(value, dtype=_type_of(part)))
            if np.isfinite(pool.band[0]):
                tensors[f"pools.{number}.floor"] = np.array([pool.band[0]], dtype=_type_of("floor"))
        return save(
            {name: np.ascontiguousarray(value) for name, value in tensors.items()}, {"format": FORMAT}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Recordings:
        """The reverse of `to_bytes`.

        Raises:
            ValueError: They are not recordings, or their arrays do not fit each other.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors = load(data)
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"not a file of recordings ({error})") from error
        for name in ("bad", "scores"):
            if name not in tensors:
                raise ValueError(f"not a file of recordings: {name} is missing")
        numbers = sorted({int(name.split(".")[1]) for name in tensors if name.startswith("pools.")})
        pools = tuple(_pool_from(tensors, number) for number in numbers)
        return cls(
            tensors["bad"] != 0, tensors["scores"], tensors.get("heads"), pools, tensors.get("glances")
        )


def _type_of(part: str) -> str:
    return {
        "images": "int32",
        "likelihoods": "float16",
        "counts": "uint8",
        "cut": "float32",
        "floor": "float32",
    }[part]


def _pool_from(tensors: Mapping[str, np.ndarray], number: int) -> PoolRecording:
    values = []
    for part in _POOL_PARTS:
        name = f"pools.{number}.{part}"
        if name not in tensors or tensors[name].dtype != _type_of(part):
            raise ValueError(f"not a file of recordings: {name} is missing or of another type")
        values.append(tensors[name])
    images, likelihoods, counts, cut = values
    floor = tensors.get(f"pools.{number}.floor", np.array([-np.inf]))
    if cut.shape != (1,) or floor.shape != (1,):
        raise ValueError(f"not a file of recordings: pools.{number} has no band of the head")
    return PoolRecording(images, likelihoods, counts, (float(floor[0]), float(cut[0])))


def _check_pools(pool: PoolRecording, images: int) -> None:
    if pool.images.ndim != 2 or pool.likelihoods.ndim != 4 or pool.pool_size < 2:
        raise ValueError(
            "a recording of pools has images (chunks, n) and likelihoods (chunks, classes, ., .)"
        )
    chunks, places = pool.images.shape
    expected = (chunks, pool.classes, places // pool.pool_size)
    if pool.likelihoods.shape[:3] != expected or pool.counts.shape != expected or places % pool.pool_size:
        raise ValueError(
            f"pools of {pool.pool_size} with {places} places need {expected} readings, not "
            f"{pool.likelihoods.shape[:3]} and {pool.counts.shape}"
        )
    if not np.isfinite(pool.likelihoods).all() or np.isnan(pool.band).any():
        raise ValueError(f"the readings of pools of {pool.pool_size} are not finite numbers")
    if pool.images.size and not (pool.images.min() >= 0 and pool.images.max() < images):
        raise ValueError(f"pools of {pool.pool_size} name images that are not there")
    if pool.counts.size and pool.counts.max() > pool.pool_size:
        raise ValueError(f"a pool of {pool.pool_size} has the reading {pool.counts.max()}")
