"""Sensitivity, specificity and precision with intervals by distinct image.

In a mixture each image is drawn many times, and an image that is hard to see is missed again and again. An
interval must therefore come from resampling images and not draws: images are the clusters of
`poolsieve.statistics.proportion`, whose variance is that of the bootstrap over clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.mixtures import Mixture
from poolsieve.statistics import Proportion, proportion


@dataclass(frozen=True)
class ImageDetection:
    """How well the bad images of a mixture were found.

    Attributes:
        sensitivity: Share of bad images that were flagged.
        specificity: Share of ordinary images that were not.
        precision: Share of flags that were right; undefined without a flag.
    """

    sensitivity: Proportion
    specificity: Proportion
    precision: Proportion


@dataclass(frozen=True)
class ImageTally:
    """How often each distinct image was drawn and flagged.

    Attributes:
        draws: Times that it was drawn.  # (distinct,)
        flags: Times that it was flagged.  # (distinct,)
        bad: Whether it is bad; False where it was never drawn.  # (distinct,)
    """

    draws: NDArray[np.int64]
    flags: NDArray[np.int64]
    bad: NDArray[np.bool_]

    @classmethod
    def count(cls, mixture: Mixture, flags: NDArray[np.bool_]) -> ImageTally:
        """Count over a mixture.

        Args:
            mixture: What was drawn.
            flags: What was decided of each draw.  # (N,)
        """
        if flags.shape != mixture.images.shape:
            raise ValueError(f"{len(mixture)} images were drawn, but flags have shape {flags.shape}")
        distinct = int(mixture.images.max()) + 1
        bad = np.zeros(distinct, dtype=bool)
        bad[mixture.images] = mixture.bad
        return cls(
            np.bincount(mixture.images, minlength=distinct),
            np.bincount(mixture.images[flags], minlength=distinct),
            bad,
        )

    def detection(self) -> ImageDetection:
        """The measures with their 95% intervals."""
        clear = ~self.bad
        return ImageDetection(
            sensitivity=proportion(self.flags[self.bad], self.draws[self.bad]),
            specificity=proportion((self.draws - self.flags)[clear], self.draws[clear]),
            precision=proportion(self.flags * self.bad, self.flags),
        )


def image_detection(mixture: Mixture, flags: NDArray[np.bool_]) -> ImageDetection:
    """Sensitivity, specificity and precision of flags on a mixture, with 95% intervals by image."""
    return ImageTally.count(mixture, flags).detection()
