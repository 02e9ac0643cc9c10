"""How sure one may be that a plan loses little against individual testing *on the same images*.

Both are tried on the same recorded images, so that only those images tell anything that the one flags and the
other does not. Few do, and one in 667 more or less is luck: a plan is chosen by the upper end of an interval
for the loss, never by the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from poolsieve.statistics import exact_lower, exact_upper

CONFIDENCE = 0.95
"""How often, at least, the true loss lies below its bound."""
_CORRECTION = 0.75
"""Images that the score bound adds to what was lost: numbers of images are whole, what it supposes is not."""
_ROUNDS = 24
"""Each brings the score bound nearer to its end by a half or more."""


def loss_bound(
    lost: ArrayLike, gained: ArrayLike, images: float, confidence: float = CONFIDENCE
) -> NDArray[np.float64]:
    """Upper confidence bound of the difference of two shares that were seen on the same images.

    The lower one of two bounds. Clopper and Pearson's exact upper bound of what is lost less their lower
    bound of what is gained is the lower one where hardly anything is gained; where nothing was lost in n
    images it is 3 / n. Where some is lost and some gained it takes the worst of both, and Tango's score bound
    ("Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design", Statistics in Medicine 1998), corrected for whole numbers, is the lower one.

    Args:
        lost: Share of the images that only the reference has right.
        gained: Share of the images that only the other has right.
        images: Number of images; need not be whole.
        confidence: How often the true difference, lost less gained, lies below the bound.
    """
    b, c = (np.clip(np.asarray(part, dtype=np.float64), 0, 1) * images for part in (lost, gained))
    exact = exact_upper(b, images, confidence) - exact_lower(c, images, confidence)
    return np.minimum(exact, _score_bound(b, c, images, float(ndtri(confidence))))


def _score_bound(
    b: NDArray[np.float64], c: NDArray[np.float64], images: float, z: float
) -> NDArray[np.float64]:
    """Where the difference would lie z standard errors above what was seen, had it that standard error."""
    seen = b - c + _CORRECTION
    bound = np.clip((seen + z * np.sqrt(b + c + z * z)) / images, 0, 1)
    for _ in range(_ROUNDS):
        # The likeliest share of images that are gained, were the difference as large as the bound.
        half = b + c - (2 * images - b + c) * bound
        gained = (half + np.sqrt(np.maximum(half * half + 8 * images * c * bound * (1 - bound), 0))) / (
            4 * images
        )
        spread = np.sqrt(np.maximum(images * (2 * gained + bound * (1 - bound)), 0))
        bound = np.clip((seen + z * spread) / images, -1, 1)
    return bound


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
