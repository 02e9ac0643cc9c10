"""How sure one may be that a plan loses little against individual testing *on the same images*.

Both are tried on the same recorded images, so that only those images tell anything that the one flags and the
other does not. Few do, and one in 667 more or less is luck: a plan is chosen by the upper end of an interval
for the loss, never by the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics import exact_lower, exact_upper

CONFIDENCE = 0.95
"""How often, at least, the true loss lies below its bound."""


def loss_bound(
    lost: ArrayLike, gained: ArrayLike, images: float, confidence: float = CONFIDENCE
) -> NDArray[np.float64]:
    """Upper confidence bound of the difference of two shares that were seen on the same images.

    Clopper and Pearson's exact upper bound of what is lost less their lower bound of what is gained. Where
    nothing was lost in n images that is 3 / n.

    Args:
        lost: Share of the images that only the reference has right.
        gained: Share of the images that only the other has right.
        images: Number of images; need not be whole.
        confidence: How often the true difference, lost less gained, lies below the bound.
    """
    b, c = (np.clip(np.asarray(part, dtype=np.float64), 0, 1) * images for part in (lost, gained))
    return exact_upper(b, images, confidence) - exact_lower(c, images, confidence)


def images_needed(
    lost: float, gained: float, allowed: float, confidence: float = CONFIDENCE, most: float = 1e7
) -> float:
    """How many images it takes until the bound of a loss lies within what is allowed, if the shares stay.

    Infinite if `most` would not do.
    """
    low, high = 1.0, most
    if loss_bound(lost, gained, high, confidence) > allowed:
        return np.inf
    while high - low > 0.5:
        middle = (low + high) / 2
        enough = loss_bound(lost, gained, middle, confidence) <= allowed
        low, high = (low, middle) if enough else (middle, high)
    return float(np.ceil(high))
