"""Fitting a mixture to on-topic features; everything that has to be chosen is chosen by held-out vectors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.outliers.mixture import GaussianMixture

Covariance = Literal["full", "tied", "diag"]
CLUSTERS = (1, 2, 3, 5, 8, 12)
COVARIANCES: tuple[Covariance, ...] = ("full", "tied", "diag")
DIMENSIONS = (4, 8, 16, 32, 64, 128, 256)
SHRINKAGE = (0.01, 0.05, 0.2)
"""Variances added to covariances of whitened coordinates, whose own variances are about 1."""
_LEAST_SCALE = 0.1
"""Of the usual spread of a feature: one that hardly varies on topic would else outvote all others."""
_LEAST_VARIANCE = 1e-3
"""Of any direction, where a feature's own is about 1: features that never vary on topic, such as those that a
ReLU has shut, would else make every small change, even one of rounding, infinitely strange."""


@dataclass(frozen=True)
class FittedMixture:
    """A mixture and how it was fitted.

    Attributes:
        mixture: The mixture.
        covariance: Form of its covariances: "full", "tied" or "diag".
        shrinkage: Variance that was added.
        held_out: Mean log density of held-out vectors, over all D dimensions.
    """

    mixture: GaussianMixture
    covariance: Covariance
    shrinkage: float
    held_out: float


def fit_mixture(
    vectors: ArrayLike,
    held_out: ArrayLike,
    *,
    clusters: Sequence[int] = CLUSTERS,
    covariances: Sequence[Covariance] = COVARIANCES,
    dimensions: Sequence[int] | None = None,
    standardise: bool = True,
    seed: int = 0,
) -> FittedMixture:
    """Fit mixtures to on-topic vectors by EM and keep the one under which held-out vectors are likeliest.

    The paper chooses K so. Here the same likelihood also chooses the number q of principal directions, the
    form of the covariances and their shrinkage. That is a fair comparison, since every candidate is a density
    over the whole space (see `GaussianMixture`). First q is chosen with one Gaussian, then K and the form
    with a middle shrinkage, then the shrinkage.

    Args:
        vectors: Features of on-topic pools or images.  # (N, D)
        held_out: Features of others.  # (M, D)
        clusters: Values of K to try; those that are too many for the vectors are left out.
        covariances: Forms to try.
        dimensions: Values of q to try; None tries powers of two, and all dimensions if they are few.
        standardise: Scale every feature by its own spread before the directions are found; else all by one.
        seed: Seed of EM's start.

    Raises:
        ValueError: There are too few vectors, or they do not vary.
        ImportError: scikit-learn is missing.
    """
    table, other = _checked(vectors, "vectors"), _checked(held_out, "held-out vectors")
    if table.shape[1] != other.shape[1]:
        raise ValueError(f"vectors of {table.shape[1]} numbers, but held-out ones of {other.shape[1]}")
    number = len(table)
    usable = [k for k in clusters if 1 <= k <= number // 2]
    if not usable:
        raise ValueError(
            f"{number} on-topic vectors are too few for a mixture of {min(clusters, default=0)} Gaussians, "
            "which needs at least two for each; add images or give fewer clusters"
        )
    space = _Space(table, other, standardise)
    sizes = space.allowed(DIMENSIONS if dimensions is None else dimensions, add_all=dimensions is None)
    sketches = [_fitted(space, 1, "diag", size, SHRINKAGE[0], seed) for size in sizes]
    directions = max(sketches, key=attrgetter("held_out")).mixture.dimensions
    candidates = sketches if 1 in usable and "diag" in covariances else []
    for covariance in covariances:
        best, fallen = -math.inf, 0
        for k in usable:
            candidates.append(_fitted(space, k, covariance, directions, SHRINKAGE[1], seed))
            # More Gaussians that fit ever worse are not worth their time.
            fallen = 0 if candidates[-1].held_out > best else fallen + 1
            best = max(best, candidates[-1].held_out)
            if fallen == 2:
                break
    chosen = max(candidates, key=attrgetter("held_out"))
    shape = chosen.mixture.clusters, chosen.covariance, chosen.mixture.dimensions
    others = [_fitted(space, *shape, added, seed) for added in SHRINKAGE if added != chosen.shrinkage]
    found = max((chosen, *others), key=attrgetter("held_out"))
    return replace(found, mixture=found.mixture.rounded())


def _checked(vectors: ArrayLike, what: str) -> NDArray[np.float64]:
    table = np.asarray(vectors, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2 or not table.shape[1]:
        raise ValueError(f"{what} must be a table of at least two rows; got shape {table.shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"{what} must be finite numbers")
    return table


class _Space:
    """Scaled vectors and their principal directions."""

    def __init__(
        self, vectors: NDArray[np.float64], held_out: NDArray[np.float64], standardise: bool
    ) -> None:
        spread = vectors.std(axis=0)
        usual = float(np.sqrt(np.mean(np.square(spread))))
        if usual <= 1e-9 * max(1.0, float(np.abs(vectors).max())):
            raise ValueError(
                "the on-topic features do not vary at all: are all images the same, or did the network not "
                "train?"
            )
        self.held_out = held_out
        self.center = vectors.mean(axis=0)
        self.scale = np.maximum(spread, _LEAST_SCALE * usual) if standardise else np.full_like(spread, usual)
        self.standard = (vectors - self.center) / self.scale
        number, self.width = vectors.shape
        covariance = self.standard.T @ self.standard / number
        values, columns = np.linalg.eigh(covariance)
        self.variances = np.maximum(values[::-1], 0.0)
        self.directions = columns[:, ::-1].T
        self.rank = max(1, int((self.variances > _LEAST_VARIANCE).sum()))

    def allowed(self, sizes: Sequence[int], *, add_all: bool) -> list[int]:
        """Numbers of directions that vectors vary along; all of them too if asked and vectors are many."""
        kept = sorted({size for size in sizes if 1 <= size <= min(self.rank, self.width)})
        if add_all and len(self.standard) > 4 * self.width and self.rank == self.width:
            kept = sorted({*kept, self.width})
        return kept or [self.rank]


def _fitted(
    space: _Space, clusters: int, covariance: Covariance, dimensions: int, shrinkage: float, seed: int
) -> FittedMixture:
    try:
        from sklearn import mixture as mixtures
        from sklearn.exceptions import ConvergenceWarning
    except ImportError as error:
        raise ImportError("fitting a mixture needs scikit-learn: pip install 'poolsieve[train]'") from error

    directions = space.directions[:dimensions]
    deviation = np.sqrt(space.variances[:dimensions])
    inside = space.standard @ directions.T / deviation
    left = space.width - dimensions
    rest = max(float(space.variances[dimensions:].mean()), _LEAST_VARIANCE) if left else 1.0
    model = mixtures.GaussianMixture(
        clusters, covariance_type=covariance, reg_covar=shrinkage, max_iter=60, tol=1e-3, random_state=seed
    )
    with warnings.catch_warnings():
        # Stopped after many steps it is a mixture all the same, which held-out vectors judge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inside)
    factors = model.precisions_cholesky_
    if covariance == "tied":
        factors = factors[None]
    factors = factors / (deviation if covariance == "diag" else deviation[:, None])
    mixture = GaussianMixture(
        space.center, space.scale, directions, rest, model.weights_, model.means_ * deviation, factors
    )
    return FittedMixture(
        mixture, covariance, shrinkage, held_out=float(mixture.log_density(space.held_out).mean())
    )
