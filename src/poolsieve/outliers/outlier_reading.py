"""What a network's output says of a pool or an image, by the density of its feature vector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.outliers.mixture import GaussianMixture
from poolsieve.outliers.score_counts import (
    BINS,
    ScoreHistogram,
    ScoreLikelihood,
    make_histogram,
    smooth_likelihood,
)
from poolsieve.statistics import fit_softmax

_LEAST_LEAD = 1e-3
"""By how much the paper's label of an image leads, where smoothing alone would say otherwise."""


@dataclass(frozen=True)
class OutlierReading:
    """Turns the outputs of one network, logits and feature vectors, into one logit for each count.

    The score of a vector is its negative log density under a mixture. The paper's histogram makes a count of
    it, the smoothed histogram a likelihood of every count. That likelihood may be combined with the network's
    own logits, in which known off-topic classes show best: the combined logit of count k is
    a · logit_k + b · log P(score | k). With a = 0 and b = 1 it is the paper's method.

    Attributes:
        mixture: Density of on-topic vectors.
        histogram: Score to count.
        likelihood: Score to likelihood of every count.
        logit_weight: The weight a.
        score_weight: The weight b.
    """

    mixture: GaussianMixture
    histogram: ScoreHistogram
    likelihood: ScoreLikelihood
    logit_weight: float
    score_weight: float

    def __post_init__(self) -> None:
        weights = (self.logit_weight, self.score_weight)
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ValueError(f"the weights of logits and score must be numbers from 0 on; got {weights}")
        if self.histogram.largest >= self.outputs:
            raise ValueError("the histogram counts further than the likelihood")

    @property
    def outputs(self) -> int:
        """Counts that are told apart, r + 1; 2 for single images."""
        return int(self.likelihood.table.shape[1])

    @property
    def by_density(self) -> bool:
        """Whether the density alone decides, as in the paper."""
        return self.logit_weight == 0

    def read(self, logits: ArrayLike, vectors: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Combined logits of every count, and the count itself.

        Returns:
            Combined logits (N, outputs), which take the place of the network's, and counts (N,): the
            histogram's where the density alone decides, else those with the largest combined logit. Of
            single images the combined logits agree with the count.
        """
        return self.judge(logits, self.mixture.scores(vectors))

    def judge(self, logits: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Like `read`, from scores of vectors that the mixture gave before.  # (N, outputs), (N,)."""
        combined = self.combined_logits(logits, scores)
        if not self.by_density:
            return combined.astype(np.float32), combined.argmax(axis=1)
        counts = self.histogram.counts(scores)
        if self.outputs == 2:
            lead = combined[:, 1] - combined[:, 0]
            agreed = np.where(counts == 1, np.maximum(lead, _LEAST_LEAD), np.minimum(lead, -_LEAST_LEAD))
            combined = np.stack([-agreed / 2, agreed / 2], axis=1)
        return combined.astype(np.float32), counts

    def combined_logits(self, logits: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
        """A · logits + b · log-likelihoods of the scores.  # (N, outputs)."""
        table = np.asarray(logits, dtype=np.float64)
        return self.logit_weight * table + self.score_weight * self.likelihood.log_likelihoods(scores)

    def to_arrays(self) -> dict[str, NDArray]:
        """Plain arrays by name."""
        names = ("mixture", "histogram", "likelihood")
        weights = {"weights": np.array([self.logit_weight, self.score_weight])}
        return _prefixed({name: getattr(self, name).to_arrays() for name in names}) | weights

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> OutlierReading:
        """The reverse of `to_arrays`."""
        if "weights" not in arrays or arrays["weights"].shape != (2,):
            raise ValueError("there are no weights of logits and score")
        return cls(
            GaussianMixture.from_arrays(_within(arrays, "mixture")),
            ScoreHistogram.from_arrays(_within(arrays, "histogram")),
            ScoreLikelihood.from_arrays(_within(arrays, "likelihood")),
            *(float(weight) for weight in arrays["weights"]),
        )


def _within(arrays: Mapping[str, NDArray], prefix: str) -> dict[str, NDArray]:
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}


def _prefixed(parts: Mapping[str, Mapping[str, NDArray]]) -> dict[str, NDArray]:
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


@dataclass(frozen=True)
class OutlierReadings:
    """How the outputs of a bundle's networks are read.

    Attributes:
        individual: Of the individual network.
        counting: Of the counting networks, by pool size.
    """

    individual: OutlierReading
    counting: Mapping[int, OutlierReading]

    def __post_init__(self) -> None:
        if self.individual.outputs != 2:
            raise ValueError(f"single images have 2 labels, not {self.individual.outputs}")
        for size, reading in self.counting.items():
            if reading.outputs != size + 1:
                raise ValueError(f"the reading for pools of {size} is for {reading.outputs} counts")

    @property
    def width(self) -> int:
        """Length of the feature vectors."""
        return self.individual.mixture.width

    def to_bytes(self) -> bytes:
        """The content of the file."""
        from safetensors.numpy import save

        parts = {f"counting-{size}": reading.to_arrays() for size, reading in self.counting.items()}
        arrays = _prefixed({"individual": self.individual.to_arrays(), **parts})
        return bytes(save({name: np.ascontiguousarray(value) for name, value in arrays.items()}))

    @classmethod
    def from_bytes(cls, content: bytes) -> OutlierReadings:
        """The reverse of `to_bytes`.

        Raises:
            ValueError: It is no such file, a number is not finite, or arrays are missing or do not fit.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays: dict[str, NDArray] = load(content)
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"not a file of arrays ({error})") from error
        for name, values in arrays.items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name!r} holds numbers that are not finite")
        groups = {name.split(".", 1)[0] for name in arrays}
        sizes = sorted(int(group.removeprefix("counting-")) for group in groups - {"individual"})
        if "individual" not in groups:
            raise ValueError("there is no reading of single images")
        counting = {size: OutlierReading.from_arrays(_within(arrays, f"counting-{size}")) for size in sizes}
        return cls(OutlierReading.from_arrays(_within(arrays, "individual")), counting)


def make_reading(
    mixture: GaussianMixture,
    logits: ArrayLike,
    vectors: ArrayLike,
    counts: ArrayLike,
    *,
    largest: int,
    combine: bool,
    bins: int = BINS,
) -> OutlierReading:
    """Learn on validation pools or images what scores mean.

    Args:
        mixture: Density of on-topic vectors.
        logits: Outputs of the network.  # (N, outputs)
        vectors: Its feature vectors.  # (N, D)
        counts: True counts, every one of 0 … outputs − 1 at least twice.  # (N,)
        largest: The largest count t that the histogram tells; pools with more are not in it.
        combine: Combine score and logits; else the density alone decides.
        bins: Bins Q of the histogram.
    """
    table, true = np.asarray(logits, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    scores = mixture.scores(vectors)
    few = true <= largest
    histogram = make_histogram(scores[few], true[few], bins=bins)
    likelihood = smooth_likelihood(scores, true, table.shape[1])
    weights = [0.0, 1.0]
    if combine:
        others = _judged_by_others(scores, true, table.shape[1])
        weights, _ = fit_softmax([table, others], true, [0.5, 0.5], [(0.01, 10.0), (0.0, 10.0)])
    return OutlierReading(mixture, histogram, likelihood, *weights)


def _judged_by_others(
    scores: NDArray[np.float64], counts: NDArray[np.int64], outputs: int
) -> NDArray[np.float64]:
    """Log-likelihoods (N, outputs) of each half of the scores, by the other half.

    A likelihood made from the very scores that it judges would seem worth more than it is.
    """
    if np.bincount(counts, minlength=outputs).min() < 4:
        return smooth_likelihood(scores, counts, outputs).log_likelihoods(scores)
    place = np.empty(len(counts), dtype=np.int64)  # among the scores of the same count
    for count in range(outputs):
        place[counts == count] = np.arange(np.sum(counts == count))
    result = np.empty((len(counts), outputs))
    for half in (0, 1):
        own = place % 2 == half
        other = smooth_likelihood(scores[~own], counts[~own], outputs)
        result[own] = other.log_likelihoods(scores[own])
    return result
