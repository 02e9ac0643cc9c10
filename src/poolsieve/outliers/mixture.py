"""Gaussian mixtures of feature vectors as plain arrays, scored with numpy (eq:NLL of the paper)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_LOG_TWO_PI = float(np.log(2 * np.pi))
_ARRAYS = ("center", "scale", "directions", "rest", "weights", "means", "factors")


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of K Gaussians over vectors of D numbers, whose covariances share a low-dimensional part.

    A vector x is centred and scaled to z, and z is split into its coordinates y along q orthonormal
    directions and a rest. The mixture lives in y; each of the other D − q directions has one small variance,
    as in probabilistic PCA (Tipping and Bishop 1999). So this is a density over all of the D-dimensional
    space, and densities with different q can be compared; with q = D there is no rest.

    Attributes:
        center: Subtracted from a vector.  # (D,)
        scale: Divides it after that.  # (D,)
        directions: Orthonormal rows.  # (q, D)
        rest: Variance along every direction that is left; 1 if none is.
        weights: Membership probabilities p_j.  # (K,)
        means: Means of y.  # (K, q)
        factors: W with W Wᵀ = inverse covariance of y: (K, q, q), or (1, q, q) if all Gaussians share it, or
            (K, q) if covariances are diagonal.
    """

    center: NDArray[np.floating]
    scale: NDArray[np.floating]
    directions: NDArray[np.floating]
    rest: float
    weights: NDArray[np.floating]
    means: NDArray[np.floating]
    factors: NDArray[np.floating]

    def __post_init__(self) -> None:
        (clusters, dimensions), width = self.means.shape, len(self.center)
        square = (dimensions, dimensions)
        shapes = self.scale.shape, self.directions.shape, self.weights.shape
        if (
            shapes != ((width,), (dimensions, width), (clusters,))
            or self.factors.shape not in ((clusters, *square), (1, *square), (clusters, dimensions))
            or not 1 <= dimensions <= width
        ):
            raise ValueError("the arrays of a mixture do not fit together")
        if (self.scale <= 0).any() or not self.rest > 0 or (self.weights < 0).any():
            raise ValueError("scales and variances of a mixture must be above 0, its weights from 0 on")

    @property
    def width(self) -> int:
        """Numbers in a vector, D."""
        return len(self.center)

    @property
    def dimensions(self) -> int:
        """Dimensions that the Gaussians differ in, q."""
        return int(self.means.shape[1])

    @property
    def clusters(self) -> int:
        """Number of Gaussians, K."""
        return len(self.weights)

    @property
    def covariance(self) -> str:
        """Form of the covariances: "full", "tied" or "diag"."""
        if self.factors.ndim == 2:
            return "diag"
        return "full" if len(self.factors) == self.clusters else "tied"

    @cached_property
    def digest(self) -> str:
        """Tells mixtures apart: equal ones have equal digests."""
        digest = hashlib.sha256()
        for name, values in self.to_arrays().items():
            digest.update(f"{name} {values.shape}".encode() + values.tobytes())
        return digest.hexdigest()

    def log_density(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of the density at vectors.  # (N, D) -> (N,)."""
        table = np.asarray(vectors, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.width:
            raise ValueError(f"the mixture is of vectors of {self.width} numbers; got shape {table.shape}")
        standard = (table - self.center) / self.scale
        inside = standard @ self.directions.T
        left = self.width - self.dimensions
        result = scipy.special.logsumexp(
            self._log_parts(inside), axis=1, b=self.weights[None].astype(np.float64)
        )
        if left:
            # The rest itself, not |z|² − |y|², which would lose all digits far from the centre.
            beside = np.square(standard - inside @ self.directions).sum(axis=1)
            result -= 0.5 * (beside / self.rest + left * (_LOG_TWO_PI + np.log(self.rest)))
        return np.asarray(result - np.log(self.scale).sum(dtype=np.float64))

    def scores(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Negative log density (eq:NLL): the higher, the stranger.  # (N, D) -> (N,)."""
        return -self.log_density(vectors)

    def _log_parts(self, inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of every Gaussian.  # (N, q) -> (N, K)."""
        factors = self.factors.astype(np.float64)
        parts = np.empty((len(inside), self.clusters))
        for j in range(self.clusters):
            offset = inside - self.means[j]
            if factors.ndim == 2:
                whitened, stretch = offset * factors[j], factors[j]
            else:
                factor = factors[min(j, len(factors) - 1)]
                whitened, stretch = offset @ factor, np.diag(factor)
            distance = np.square(whitened).sum(axis=1)
            parts[:, j] = np.log(np.abs(stretch)).sum() - 0.5 * (distance + self.dimensions * _LOG_TWO_PI)
        return parts

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Plain arrays by name."""
        return {name: np.asarray(getattr(self, name), dtype=np.float32).copy() for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.floating]]) -> GaussianMixture:
        """The reverse of `to_arrays`."""
        missing = [name for name in _ARRAYS if name not in arrays]
        if missing:
            raise ValueError(f"the mixture has no {', '.join(missing)}")
        values = {name: arrays[name] for name in _ARRAYS if name != "rest"}
        if values["means"].ndim != 2 or values["center"].ndim != 1 or arrays["rest"].size != 1:
            raise ValueError("the arrays of a mixture do not fit together")
        return cls(**values, rest=float(arrays["rest"].reshape(())))

    def rounded(self) -> GaussianMixture:
        """The mixture as it is stored, in single precision."""
        return self.from_arrays(self.to_arrays())
