"""How far the errors of pools that share an image go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.calibration.scaling import whole_numbers
from poolsieve.decoders.noise import CountNoise
from poolsieve.designs import Pooling, balanced_design

LARGEST_CORRELATION = 0.99
CHUNKS = 20
"""Chunks of validation images on which errors of pools that share an image are compared."""
POOLS_PER_IMAGE = 4
CHUNK_PREVALENCE = 0.1
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class ErrorCorrelation:
    """How far errors of pools that share an image go together.

    An image that is hard to see is missed in all its pools, so pools do not err independently, and a
    simulation that lets them is too hopeful. `latent` is what `CountNoise.sample(correlation=...)` takes: the
    share of a pool's latent normal error that belongs to its bad images (to all its images if none is bad).
    The other two numbers only describe: correlation coefficients of the residuals, reading − mean reading at
    that true count, over pairs of pools.

    Attributes:
        latent: Between 0 and 1, by maximum pairwise likelihood.
        shared_bad: Correlation of residuals over pairs that share a bad image.
        shared_clean: The same over pairs that share clean images only.
        pairs: Number of pairs of pools that share an image.
    """

    latent: float
    shared_bad: float
    shared_clean: float
    pairs: int


def measure_correlation(
    read: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    labels: NDArray[np.int64],
    pool_size: int,
    seed: int,
) -> ErrorCorrelation | None:
    """How errors of pools that share an image go together; None if there are too few validation images.

    Args:
        read: Gives the readings of pools, (m,), of which it is told the images.  # (m, pool_size)
        labels: 1 for bad images.  # (n,)
        pool_size: Images of a pool.
        seed: Draws chunks of images.
    """
    size = pool_size
    images = size * max(3 * POOLS_PER_IMAGE, size + 1)  # fewer have no balanced design, from pools of 13 on
    number_bad = max(1, round(CHUNK_PREVALENCE * images))
    wanted = {1: number_bad, 0: images - number_bad}
    classes = [(np.flatnonzero(labels == label), number) for label, number in wanted.items()]
    if any(len(members) < number for members, number in classes):
        return None
    design = balanced_design(images, pool_size=size, pools_per_image=POOLS_PER_IMAGE, seed=seed)
    flags, readings = [], []
    for chunk in range(CHUNKS):
        rng = np.random.default_rng([seed, *f"correlation {size}".encode(), chunk])
        chosen = rng.permutation(np.concatenate([rng.choice(*part, replace=False) for part in classes]))
        flags.append(labels[chosen])
        readings.append(read(chosen[design.pools]))
    return error_correlation(np.stack(flags), np.stack(readings), design)


def error_correlation(bad: ArrayLike, read: ArrayLike, pooling: Pooling) -> ErrorCorrelation:
    """Measure on validation chunks how errors of pools that share an image go together.

    Under the model of `CountNoise.sample` the latent errors of two pools have the correlation a·ρ, where a is
    the overlap of their contributing images: Σ 1/√(k·k′) over shared ones, k and k′ being the numbers of
    contributing images. A reading says in which interval the latent error lies, so a pair of readings has the
    probability of a rectangle under a bivariate normal distribution; ρ maximises the product over all pairs.

    Args:
        bad: True labels.  # (chunks, n)
        read: Readings of the pools.  # (chunks, m)
        pooling: Which images share which pool.
    """
    flags, size = np.atleast_2d(np.asarray(bad)) != 0, pooling.pool_size
    readings = whole_numbers(np.atleast_2d(np.asarray(read)), size, "readings")
    true = pooling.counts(flags)
    if readings.shape != true.shape:
        raise ValueError(f"readings must have shape {true.shape} (chunks, pools), not {readings.shape}")
    overlaps = np.triu((pooling.sparse @ pooling.sparse.T).toarray(), k=1)
    first, second = np.nonzero(overlaps)
    if not len(first):
        raise ValueError("no two pools share an image; measure with a design in which images are in several")

    member = pooling.dense().astype(bool)  # (m, n)
    both = member[first] & member[second]  # (pairs, n)
    contributes = flags[:, None, :] | (true == 0)[:, :, None]  # (chunks, m, n)
    weight = np.where(true > 0, true, pooling.pool_sizes)  # contributing images of each pool
    joint = np.stack([(both & c[first] & c[second]).sum(axis=1) for c in contributes])
    overlap = joint / np.sqrt(weight[:, first] * weight[:, second])  # (chunks, pairs)
    shares_bad = np.stack([(both & chunk).any(axis=1) for chunk in flags])

    residual = readings - _mean_at(true, readings, size)[true]
    left, right = residual[:, first], residual[:, second]
    edges = scipy.special.ndtri(
        np.clip(np.cumsum(CountNoise.estimate(true, readings, size).confusion, axis=1), 1e-9, 1 - 1e-9)
    )
    edges = np.concatenate([np.full((size + 1, 1), -8.0), edges[:, :-1], np.full((size + 1, 1), 8.0)], axis=1)
    return ErrorCorrelation(
        latent=_pairwise_likelihood(true, readings, first, second, overlap, edges),
        shared_bad=_correlation(left[shares_bad], right[shares_bad]),
        shared_clean=_correlation(left[~shares_bad], right[~shares_bad]),
        pairs=int(overlap.size),
    )


def _pairwise_likelihood(
    true: NDArray[np.int64],
    read: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    overlap: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> float:
    """The share ρ that explains the pairs of readings best."""
    from scipy.optimize import minimize_scalar  # slow to import, and moderating does not fit anything

    told = overlap.ravel() > 0  # the others say nothing of ρ
    columns = [true[:, first], read[:, first], true[:, second], read[:, second], np.rint(overlap * 1e6)]
    cases, times = np.unique(
        np.stack([column.ravel()[told] for column in columns]).astype(np.int64), axis=1, return_counts=True
    )
    if not len(times):
        return 0.0
    k, y, k2, y2, scaled = cases
    a = scaled / 1e6
    corners = [(edges[k, y + i], edges[k2, y2 + j], (-1) ** (i + j)) for i in (0, 1) for j in (0, 1)]

    def loss(rho: float) -> float:
        probability = sum(sign * _normal_cdf(h, h2, a * rho) for h, h2, sign in corners)
        return float(-(times * np.log(np.maximum(probability, 1e-12))).sum())

    best = minimize_scalar(loss, bounds=(0.0, LARGEST_CORRELATION), method="bounded", options={"xatol": 1e-4})
    return 0.0 if loss(0.0) <= best.fun else float(best.x)


def _normal_cdf(
    h: NDArray[np.float64], k: NDArray[np.float64], correlation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """P(X ≤ h, Y ≤ k) of standard normal variables, by Plackett's integral over the angle of correlation."""
    angle = np.arcsin(correlation)[..., None] * (_NODES + 1) / 2  # (..., nodes)
    h2, k2 = h[..., None], k[..., None]
    inner = np.exp(-(h2**2 + k2**2 - 2 * h2 * k2 * np.sin(angle)) / (2 * np.cos(angle) ** 2))
    apart = scipy.special.ndtr(h) * scipy.special.ndtr(k)
    result: NDArray[np.float64] = apart + np.arcsin(correlation) / (4 * np.pi) * (inner @ _WEIGHTS)
    return result


def _mean_at(true: NDArray[np.int64], read: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    pools = np.bincount(true.ravel(), minlength=size + 1)
    total = np.bincount(true.ravel(), weights=read.ravel(), minlength=size + 1)
    return total / np.maximum(pools, 1)


def _correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Of residuals with mean 0; 0 where nothing varies. A pair has no order, so its ends share a variance."""
    scale = (left @ left + right @ right) / 2
    return float(left @ right / scale) if scale > 0 else 0.0
