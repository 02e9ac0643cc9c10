"""Mixtures of a split's images at a given prevalence, as in the paper ("Pooled Dataset Splits")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Mixture:
    """Many draws from few distinct images, in a random order.

    Attributes:
        images: Number of the distinct image at each place.  # (N,)
        bad: Whether it is bad.  # (N,)
        prevalence: Share of bad images that was asked for.
    """

    images: NDArray[np.intp]
    bad: NDArray[np.bool_]
    prevalence: float

    def __len__(self) -> int:
        return len(self.images)

    def chunks(self, size: int) -> Iterator[slice]:
        """Consecutive chunks; the last may be short."""
        return (slice(start, min(start + size, len(self))) for start in range(0, len(self), size))


def draw_mixture(labels: ArrayLike, prevalence: float, images: int, rng: np.random.Generator) -> Mixture:
    """Draw `images` images of which a share `prevalence` is bad, and shuffle them.

    Every bad image is drawn equally often, up to one, and so is every clear one: images are dealt round after
    round, each round in a new order. With an equal seed and number, mixtures of different prevalences are
    nested: the rarer bad images are, the more of their places hold ordinary ones, and no other place changes.
    Pools that hold the same images at both prevalences then need to be read once only.

    Args:
        labels: 1 for each distinct image that is bad, 0 for the others.  # (distinct,)
        prevalence: Share of bad images.
        images: Number of draws N; pN are bad, rounded.
        rng: Source of randomness.

    Raises:
        ValueError: There is nothing to draw from, or less than one bad or clear image would be drawn.
    """
    truth, number = np.asarray(labels), bad_draws(prevalence, images)
    order = rng.permutation(images)
    drawn = np.empty(images, dtype=np.intp)
    # Bad images are dealt to places from one end of the order, ordinary ones from the other.
    sides = ((1, "bad", order[:number]), (0, "ordinary", order[number:][::-1]))
    for (label, name, places), dealer in zip(sides, rng.spawn(2), strict=True):
        distinct = np.flatnonzero(truth == label)
        if not len(distinct):
            raise ValueError(f"there is no {name} image (label {label}) to draw from")
        rounds = -(-len(places) // len(distinct))
        dealt = np.concatenate([dealer.permutation(distinct) for _ in range(rounds)])
        drawn[places] = dealt[: len(places)]
    return Mixture(drawn, truth[drawn] == 1, prevalence)


def bad_draws(prevalence: float, images: int) -> int:
    """How many of a mixture's images are bad; raises ValueError if there can be no such mixture."""
    if not 0 < prevalence < 1:
        raise ValueError(f"prevalence is {prevalence:g}, but it must lie between 0 and 1")
    if images < 2:
        raise ValueError(f"a mixture of {images} images is too small")
    number = round(prevalence * images)
    if not 0 < number < images:
        raise ValueError(
            f"{images} images at prevalence {prevalence:g} hold {number} bad ones; draw at least "
            f"{int(np.ceil(1 / min(prevalence, 1 - prevalence)))} images"
        )
    return number


def no_images(prevalence: float) -> Mixture:
    """A mixture without images, for what is set up by the prevalence alone."""
    return Mixture(np.empty(0, dtype=np.intp), np.empty(0, dtype=bool), prevalence)
