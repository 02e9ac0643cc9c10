"""The histogram of scores, smoothed: how likely a score is for every count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtri

_KNOTS = 201
_BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.45)
_COMMON = 0.02
"""Share of every density that is the mean of all: no score can speak beyond all doubt for a count."""
_BLOCK = 512


@dataclass(frozen=True)
class ScoreLikelihood:
    """log P(score | count) up to a constant for each score, linear between knots and constant beyond them.

    Attributes:
        knots: Scores, ascending.  # (G,)
        table: Log-likelihoods there.  # (G, counts)
    """

    knots: NDArray[np.float64]
    table: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.knots.ndim != 1 or self.table.ndim != 2 or len(self.table) != len(self.knots):
            raise ValueError("the likelihood of scores has not one row for each knot")
        if not len(self.knots) or (np.diff(self.knots) <= 0).any():
            raise ValueError("the knots of a likelihood must ascend")

    def log_likelihoods(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Log-likelihood of every count.  # (N,) -> (N, counts)."""
        values = np.asarray(scores, dtype=np.float64)
        columns = [np.interp(values, self.knots, column) for column in self.table.T]
        return np.stack(columns, axis=-1)

    def to_arrays(self) -> dict[str, NDArray]:
        """Plain arrays by name."""
        return {"knots": self.knots, "table": self.table}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> ScoreLikelihood:
        """The reverse of `to_arrays`."""
        missing = [name for name in ("knots", "table") if name not in arrays]
        if missing:
            raise ValueError(f"the likelihood of scores has no {', '.join(missing)}")
        return cls(arrays["knots"].astype(np.float64), arrays["table"].astype(np.float64))


def smooth_likelihood(scores: ArrayLike, counts: ArrayLike, outputs: int) -> ScoreLikelihood:
    """Estimate the density of the score for every count.

    Scores have a long tail, so kernels of one width would be too wide here or too narrow there. They are
    placed on the scale of normal scores: the place of a score among all scores, as a quantile of the normal
    distribution. Ratios of densities are the same on any such scale, and only they matter. The width of the
    kernels is the one under which each score is likeliest given the others of its count.

    Args:
        scores: Of validation pools or images.  # (N,)
        counts: Their true counts; every count needs at least two.  # (N,)
        outputs: Number of counts, 0 … outputs − 1.
    """
    values, true = np.asarray(scores, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    if values.ndim != 1 or values.shape != true.shape or not np.isfinite(values).all():
        raise ValueError("one finite score and one count for each pool are needed")
    numbers = np.bincount(true, minlength=outputs)
    if len(numbers) > outputs or (numbers < 2).any():
        raise ValueError(
            f"every count from 0 to {outputs - 1} needs two scores; there are {numbers.tolist()}"
        )
    # Every count weighs the same, whatever share of the pools it has.
    order = np.argsort(values, kind="stable")
    weight = (1 / numbers[true])[order] / outputs
    place = np.cumsum(weight) - weight / 2
    shares = (np.arange(_KNOTS) + 0.5) / _KNOTS
    knots, first = np.unique(np.interp(shares, place, values[order]), return_index=True)
    grid = ndtri(shares[first])
    if len(knots) == 1:
        return ScoreLikelihood(knots, np.zeros((1, outputs)))
    slope = np.gradient(grid, knots)
    normal = np.interp(values, knots, grid)
    for outside, edge in ((values < knots[0], 0), (values > knots[-1], -1)):
        normal[outside] = grid[edge] + np.clip((values[outside] - knots[edge]) * slope[edge], -1, 1)
    groups = [normal[true == count] for count in range(outputs)]
    width = max(_BANDWIDTHS, key=lambda width: sum(_left_out(group, width) for group in groups))
    density = np.stack([_log_density(grid, group, width) for group in groups], axis=1)
    common = logsumexp(density, axis=1, keepdims=True) - np.log(outputs)
    table = np.logaddexp(density + np.log1p(-_COMMON), common + np.log(_COMMON))
    return ScoreLikelihood(knots, table - logsumexp(table, axis=1, keepdims=True))


def _log_density(
    places: NDArray[np.float64], group: NDArray[np.float64], width: float
) -> NDArray[np.float64]:
    """Kernel density of a group at places, up to a constant that all groups share."""
    kernels = -0.5 * np.square((places[:, None] - group[None]) / width)
    result: NDArray[np.float64] = logsumexp(kernels, axis=1) - np.log(len(group) * width)
    return result


def _left_out(group: NDArray[np.float64], width: float) -> float:
    """Mean log density of each member under the kernels of the others."""
    total = 0.0
    for begin in range(0, len(group), _BLOCK):
        part = group[begin : begin + _BLOCK]
        kernels = -0.5 * np.square((part[:, None] - group[None]) / width)
        kernels[np.arange(len(part)), begin + np.arange(len(part))] = -np.inf
        total += float(np.maximum(logsumexp(kernels, axis=1), -50.0).sum())
    return total / len(group) - float(np.log((len(group) - 1) * width))
