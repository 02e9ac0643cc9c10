"""From an anomaly score to a count: the paper's histogram (eq:histjl, eq:label_pool), and smoothed.

The histogram is the paper's exactly; the smoothed one says how likely a score is for every count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

BINS = 500
"""The paper's Q."""
_KNOTS = 201
_BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.45)
_COMMON = 0.02
"""Share of every density that is the mean of all: no score can speak beyond all doubt for a count."""
_BLOCK = 512


@dataclass(frozen=True)
class ScoreHistogram:
    """Labels of Q equal bins between the smallest and the largest score of validation pools.

    Attributes:
        low: The smallest score, s_min.
        high: The largest score, s_max.
        labels: Count that each bin stands for.  # (Q,)
        largest: The largest count that validation pools held, t.
    """

    low: float
    high: float
    labels: NDArray[np.int64]
    largest: int

    def __post_init__(self) -> None:
        if not self.low <= self.high or not len(self.labels):
            raise ValueError("a histogram needs bins between its lowest and its highest score")
        if self.labels.min() < 0 or self.labels.max() > self.largest:
            raise ValueError(f"labels of a histogram lie between 0 and {self.largest}")

    def counts(self, scores: ArrayLike) -> NDArray[np.int64]:
        """The count of each score (eq:label_pool): 0 left of all bins, t right of them.  # (N,) -> (N,)."""
        values = np.asarray(scores, dtype=np.float64)
        inside = _bins(np.clip(values, self.low, self.high), self.low, self.high, len(self.labels))
        return np.select([values < self.low, values > self.high], [0, self.largest], self.labels[inside])

    def to_arrays(self) -> dict[str, NDArray]:
        """Plain arrays by name."""
        return {
            "bounds": np.array([self.low, self.high]),
            "labels": self.labels.astype(np.int64),
            "largest": np.array([self.largest]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> ScoreHistogram:
        """The reverse of `to_arrays`."""
        for name, size in (("bounds", 2), ("labels", None), ("largest", 1)):
            if name not in arrays or arrays[name].ndim != 1 or size not in (None, arrays[name].size):
                raise ValueError(f"the histogram has no proper {name}")
        low, high = (float(value) for value in arrays["bounds"])
        return cls(low, high, arrays["labels"].astype(np.int64), int(arrays["largest"][0]))


def make_histogram(scores: ArrayLike, counts: ArrayLike, *, bins: int = BINS) -> ScoreHistogram:
    """Label bins by the scores of validation pools.

    A bin gets the count that most of its pools have (the smaller one if two are equally frequent); an empty
    bin gets the label of the nearest bin that is not, and if two are equally near, of the one with the larger
    index.

    Args:
        scores: Anomaly scores of pools.  # (N,)
        counts: How many off-topic images each of them holds.  # (N,)
        bins: The number of bins, Q.
    """
    values, true = np.asarray(scores, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    if values.ndim != 1 or values.shape != true.shape or not len(values):
        raise ValueError(f"one score and one count for each pool; got {values.shape} and {true.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite numbers")
    if bins < 1:
        raise ValueError(f"bins is {bins}; give a whole number from 1 on")
    low, high, largest = float(values.min()), float(values.max()), int(true.max())
    table = np.zeros((bins, largest + 1), dtype=np.int64)
    np.add.at(table, (_bins(values, low, high, bins), true), 1)
    filled = np.flatnonzero(table.any(axis=1))
    places = np.arange(bins)
    after = np.minimum(np.searchsorted(filled, places), len(filled) - 1)
    right, left = filled[after], filled[np.maximum(after - 1, 0)]
    nearest = np.where(np.abs(right - places) <= np.abs(places - left), right, left)
    return ScoreHistogram(low, high, table.argmax(axis=1)[nearest], largest)


def _bins(values: NDArray[np.float64], low: float, high: float, bins: int) -> NDArray[np.int64]:
    """Bin of each value in [low, high]; the last bin holds its right end too."""
    share = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.clip((share * bins).astype(np.int64), 0, bins - 1)


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
        return np.stack([np.interp(values, self.knots, column) for column in self.table.T], axis=-1)

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
    grid = scipy.special.ndtri(shares[first])
    if len(knots) == 1:
        return ScoreLikelihood(knots, np.zeros((1, outputs)))
    slope = np.gradient(grid, knots)
    normal = np.interp(values, knots, grid)
    for outside, edge in ((values < knots[0], 0), (values > knots[-1], -1)):
        normal[outside] = grid[edge] + np.clip((values[outside] - knots[edge]) * slope[edge], -1, 1)
    groups = [normal[true == count] for count in range(outputs)]
    width = max(_BANDWIDTHS, key=lambda width: sum(_left_out(group, width) for group in groups))
    density = np.stack([_log_density(grid, group, width) for group in groups], axis=1)
    common = scipy.special.logsumexp(density, axis=1, keepdims=True) - np.log(outputs)
    table = np.logaddexp(density + np.log1p(-_COMMON), common + np.log(_COMMON))
    return ScoreLikelihood(knots, table - scipy.special.logsumexp(table, axis=1, keepdims=True))


def _log_density(
    places: NDArray[np.float64], group: NDArray[np.float64], width: float
) -> NDArray[np.float64]:
    """Kernel density of a group at places, up to a constant that all groups share."""
    kernels = -0.5 * np.square((places[:, None] - group[None]) / width)
    return np.asarray(scipy.special.logsumexp(kernels, axis=1) - np.log(len(group) * width))


def _left_out(group: NDArray[np.float64], width: float) -> float:
    """Mean log density of each member under the kernels of the others."""
    total = 0.0
    for begin in range(0, len(group), _BLOCK):
        part = group[begin : begin + _BLOCK]
        kernels = -0.5 * np.square((part[:, None] - group[None]) / width)
        kernels[np.arange(len(part)), begin + np.arange(len(part))] = -np.inf
        total += float(np.maximum(scipy.special.logsumexp(kernels, axis=1), -50.0).sum())
    return total / len(group) - float(np.log((len(group) - 1) * width))
