"""From an anomaly score to a count: the paper's histogram (eq:histjl, eq:label_pool), exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 500
"""The paper's Q."""


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
        found = self.labels[
            _bins(np.clip(values, self.low, self.high), self.low, self.high, len(self.labels))
        ]
        result: NDArray[np.int64] = np.where(
            values < self.low, 0, np.where(values > self.high, self.largest, found)
        )
        return result

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
    low, high = float(values.min()), float(values.max())
    largest = int(true.max())
    table = np.zeros((bins, largest + 1), dtype=np.int64)
    np.add.at(table, (_bins(values, low, high, bins), true), 1)
    filled = np.flatnonzero(table.any(axis=1))
    labels = table.argmax(axis=1)
    places = np.arange(bins)
    after = np.minimum(np.searchsorted(filled, places), len(filled) - 1)
    before = np.maximum(after - 1, 0)
    right, left = filled[after], filled[before]
    nearest = np.where(np.abs(right - places) <= np.abs(places - left), right, left)
    return ScoreHistogram(low, high, labels[nearest], largest)


def _bins(values: NDArray[np.float64], low: float, high: float, bins: int) -> NDArray[np.int64]:
    """Bin of each value in [low, high]; the last bin holds its right end too."""
    width = high - low
    share = (values - low) / width if width > 0 else np.zeros_like(values)
    result: NDArray[np.int64] = np.clip((share * bins).astype(np.int64), 0, bins - 1)
    return result
