"""Outlier detection on one's own features, with the interface of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.outliers.fitting import CLUSTERS, COVARIANCES, Covariance, fit_mixture
from poolsieve.outliers.mixture import GaussianMixture


class OutlierModel:
    """Finds vectors that do not belong to one known class, by the density of a Gaussian mixture.

    Args:
        clusters: Values of K to choose from.
        covariances: Forms of the covariances to choose from.
        dimensions: Numbers of principal directions to choose from; None for powers of two.
        held_out: Share of the on-topic vectors that choose, and that set the threshold.
        contamination: Share of on-topic vectors that may be flagged.
        seed: Seed of everything random.

    Attributes:
        mixture_: The mixture.
        threshold_: Score above which a vector is flagged.
    """

    mixture_: GaussianMixture
    threshold_: float

    def __init__(
        self,
        clusters: Sequence[int] = CLUSTERS,
        *,
        covariances: Sequence[Covariance] = COVARIANCES,
        dimensions: Sequence[int] | None = None,
        held_out: float = 0.25,
        contamination: float = 0.02,
        seed: int = 0,
    ) -> None:
        self.clusters, self.covariances, self.dimensions = clusters, covariances, dimensions
        self.held_out, self.contamination, self.seed = held_out, contamination, seed

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> OutlierModel:
        """Fit to on-topic vectors.

        Args:
            X: Vectors.  # (N, D)
            y: 1 for off-topic vectors, which are left out of the mixture and then should score higher than
                the others (a warning says if they do not); None if all are on topic.  # (N,)
        """
        for name in ("held_out", "contamination"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share between 0 and 1")
        table = np.asarray(X, dtype=np.float64)
        off_topic = np.zeros(len(table), dtype=bool) if y is None else np.asarray(y) != 0
        if table.ndim != 2 or off_topic.shape != (len(table),):
            raise ValueError(
                f"X must be a table with one label per row; got {table.shape}, {off_topic.shape}"
            )
        order = np.random.default_rng(self.seed).permutation(np.flatnonzero(~off_topic))
        number = max(2, round(self.held_out * len(order)))
        if len(order) - number < 2:
            raise ValueError(f"{len(order)} on-topic vectors are too few; give at least 4")
        kept, chosen = table[order[number:]], table[order[:number]]
        self.mixture_ = fit_mixture(
            kept,
            chosen,
            clusters=self.clusters,
            covariances=self.covariances,
            dimensions=self.dimensions,
            seed=self.seed,
        ).mixture
        typical = self.score_samples(chosen)
        self.threshold_ = float(np.quantile(typical, 1 - self.contamination))
        if off_topic.any():
            message = swapped(typical, self.score_samples(table[off_topic]))
            if message is not None:
                warnings.warn(message, UserWarning, stacklevel=2)
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Negative log density (eq:NLL): higher = more off-topic.  # (N, D) -> (N,)."""
        return self.mixture_.scores(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score above the threshold: higher = more off-topic, flagged above 0.  # (N, D) -> (N,)."""
        return self.score_samples(X) - self.threshold_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """1 for off-topic vectors, 0 for others.  # (N, D) -> (N,)."""
        return (self.decision_function(X) > 0).astype(np.int64)


def swapped(on_topic: NDArray[np.float64], off_topic: NDArray[np.float64]) -> str | None:
    """What to say if "off-topic" scores are the more typical ones, as where labels are swapped."""
    if np.median(off_topic) > np.median(on_topic):
        return None
    return (
        "the images labelled off-topic (1) look more typical of the topic than those labelled on-topic (0): "
        "are the labels the wrong way round?"
    )
