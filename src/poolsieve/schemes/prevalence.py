"""How many images are bad in all, with an interval, from what the pools say."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics import Estimate

SHARES = np.concatenate([[0.0], np.geomspace(1e-5, 0.999, 300)])
"""Prevalences at which the likelihood is kept."""
_DROP = 1.92
"""Half the 95% quantile of χ² with one degree of freedom."""
_LEAST = -200.0
"""Log-likelihoods below this are taken for it, so that no network is so sure that logarithms overflow."""


class Prevalence(Estimate):
    """An estimated share of bad images with its 95% interval, written in percent."""

    style: ClassVar[str] = ".2%"


@dataclass
class PrevalenceEstimator:
    """The likelihood of every prevalence, summed over groups of images as they come.

    A group of s images at prevalence p holds a binomial number k of bad ones, and the network's output has
    a known likelihood for each k. The estimate maximises the product over groups; the interval is where the
    likelihood has not fallen by more than the χ² bound. With overlapping pools every group has a weight
    below one so that each image counts once: pools that share images say less than as many separate ones.
    It is as good as the calibration of the network is on the images at hand.

    Attributes:
        log_likelihood: At each of `SHARES`.
    """

    log_likelihood: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(SHARES)))
    groups: int = 0

    def add(self, likelihoods: ArrayLike, sizes: ArrayLike, weight: float = 1.0) -> None:
        """Add groups of images.

        Args:
            likelihoods: Log-likelihood of each number of bad images, up to a constant.  # (groups, r + 1)
            sizes: Images in each group, at most r.  # (groups,)
            weight: What each group counts for.
        """
        table, held = np.asarray(likelihoods, dtype=np.float64), np.asarray(sizes)
        ratios = np.exp(np.maximum(table - table.max(axis=1, keepdims=True), _LEAST))
        for size in np.unique(held):
            terms = ratios[held == size, : size + 1] @ _count_probabilities(int(size))  # (groups, shares)
            self.log_likelihood += weight * np.log(terms).sum(axis=0)
        self.groups += len(table)

    def forget(self, keep: float) -> None:
        """Let all that was added so far count for a share of what it did."""
        self.log_likelihood = self.log_likelihood * keep

    def gain_over(self, prevalence: float) -> float:
        """Log-likelihood of the most likely prevalence over that of the given one."""
        return float(self.log_likelihood.max() - np.interp(prevalence, SHARES, self.log_likelihood))

    def estimate(self) -> Prevalence | None:
        """The estimate so far; None if there was nothing to estimate it from."""
        if not self.groups:
            return None
        values = self.log_likelihood
        best = int(values.argmax())
        inside = np.flatnonzero(values >= values[best] - _DROP)
        # The ends lie between a point inside and one outside; take the one outside.
        low, high = max(inside[0] - 1, 0), min(inside[-1] + 1, len(SHARES) - 1)
        low = 0 if inside[0] == 0 else low
        return Prevalence(float(SHARES[best]), float(SHARES[low]), float(SHARES[high]))


@cache
def _count_probabilities(size: int) -> NDArray[np.float64]:
    """P(k of `size` images are bad) at each of `SHARES`.  # (size + 1, shares)."""
    bad = np.arange(size + 1)[:, None]
    # Written out, as importing scipy.stats takes longer than the first verdict may.
    result: NDArray[np.float64] = scipy.special.comb(size, bad) * SHARES**bad * (1 - SHARES) ** (size - bad)
    return result
