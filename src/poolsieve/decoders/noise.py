"""How readings err: P(reading | true count), estimated, sampled, and turned into likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling

NOMINAL_ACCURACY = (0.98, 0.95, 0.90, 0.80)
"""P(correct reading) for 0, 1, 2 and 3 or more bad images in the study that poolsieve starts from."""
CERTAIN = 1e4
"""Log-odds that stand for a prior of exactly 0 or 1: more than all pools of an image can say against it."""


@dataclass(frozen=True, eq=False)
class CountNoise:
    """A confusion matrix of counts: the noise operator 𝔑 of the paper (eq. SI_forward), pool by pool.

    Attributes:
        confusion: P(reading = y | k bad images), rows k, columns y.  # (r + 1, r + 1)
    """

    confusion: NDArray[np.float64]

    def __post_init__(self) -> None:
        table = np.array(self.confusion, dtype=np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise ValueError(f"a confusion matrix of counts is square, (r + 1) × (r + 1); got {table.shape}")
        wrong = ~((table >= 0) & (table <= 1 + 1e-9))
        if wrong.any():
            k, y = np.argwhere(wrong)[0]
            raise ValueError(f"confusion[{k}, {y}] = {table[k, y]}; a probability lies between 0 and 1")
        sums = table.sum(axis=1)
        if (abs(sums - 1) > 1e-6).any():
            k = int(np.argmax(abs(sums - 1) > 1e-6))
            raise ValueError(f"row {k} of the confusion matrix sums to {sums[k]:.6g}, not 1")
        table /= sums[:, None]
        table.flags.writeable = False
        object.__setattr__(self, "confusion", table)

    @property
    def pool_size(self) -> int:
        """Largest count r."""
        return len(self.confusion) - 1

    @classmethod
    def none(cls, pool_size: int) -> CountNoise:
        """Readings that are always right."""
        return cls(np.eye(pool_size + 1))

    @classmethod
    def nominal(cls, pool_size: int) -> CountNoise:
        """The noise assumed where nothing was measured: `NOMINAL_ACCURACY`, errors mostly by one."""
        return CountNoise(LatentNoise.from_accuracy(NOMINAL_ACCURACY, pool_size).confusion)

    @classmethod
    def estimate(
        cls, true_counts: ArrayLike, read_counts: ArrayLike, pool_size: int, *, smoothing: float = 1.0
    ) -> CountNoise:
        """Estimate from validation pools with known counts.

        Each row starts with `smoothing` imaginary pools, most of them read correctly and a tenth as many for
        every step away, so that a reading never seen is unlikely but not impossible, and a count that no
        validation pool has still gets a sensible row.
        """
        true, read = np.ravel(true_counts), np.ravel(read_counts)
        if true.shape != read.shape:
            raise ValueError(f"{len(true)} true counts, but {len(read)} read counts")
        if not smoothing > 0:
            raise ValueError(f"smoothing={smoothing!r}, but it must be above 0")
        for name, values in (("true", true), ("read", read)):
            if not np.issubdtype(values.dtype, np.integer):
                raise ValueError(f"{name} counts must be whole numbers, not {values.dtype}")
            wrong = (values < 0) | (values > pool_size)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise ValueError(f"{name} count {at} is {values[at]}; it must lie between 0 and {pool_size}")
        counts = np.arange(pool_size + 1)
        table = 0.1 ** abs(counts[:, None] - counts[None, :])
        table *= smoothing / table.sum(axis=1, keepdims=True)
        np.add.at(table, (true, read), 1.0)
        return cls(table / table.sum(axis=1, keepdims=True))

    def log_likelihoods(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of P(reading | k) for k = 0..r, for every reading.  # (..., r + 1)."""
        read = np.asarray(counts)
        wrong = (read < 0) | (read > self.pool_size)
        if wrong.any():
            raise ValueError(f"a pool of {self.pool_size} images cannot be read as {read[wrong].flat[0]}")
        with np.errstate(divide="ignore"):
            table = np.log(self.confusion.T)
        return table[read]

    def sample(
        self, bad: ArrayLike, design: Pooling, generator: np.random.Generator, *, correlation: float = 0.0
    ) -> Readings:
        """Noisy readings of chunks whose bad images are known.

        Args:
            bad: Which images are bad.  # (chunks, n)
            design: Which images share which pool; its pool size must be that of the noise.
            generator: Source of randomness.
            correlation: Between 0 (errors of all pools are independent) and 1. The error of a pool comes from
                a normal variable of which this share belongs to its bad images (to all its images if none is
                bad) and is the same in every pool they are in: an image that is hard to see is missed in all
                its pools. The confusion matrix of a single pool stays what it is.
        """
        counts, error = _latent_errors(bad, design, self.pool_size, generator, correlation)
        cumulative = self.confusion.cumsum(axis=1)[:, :-1]  # (r + 1, r)
        quantile = scipy.special.ndtr(error)
        read = np.zeros_like(counts)
        for y in range(self.pool_size):
            read += quantile > cumulative[counts, y]
        return Readings(read)


@dataclass(frozen=True, eq=False)
class LatentNoise(CountNoise):
    """Readings from a number on a line: the network sees centre[k] + noise and reports the nearest count.

    This gives soft readings as well: the log-likelihood of every count given that number.

    Attributes:
        centres: What the network sees on average at each count, ascending, in units of the noise.  # (r + 1,)
    """

    centres: NDArray[np.float64]

    @classmethod
    def from_accuracy(cls, accuracy: Sequence[float], pool_size: int) -> LatentNoise:
        """The centres at which readings are correct with the given probabilities.

        Args:
            accuracy: P(correct) for 0, 1, 2, … bad images; the last one holds for all larger counts too, but
                for a full pool, which can only be read too low and so is read correctly more often.
            pool_size: Largest count r.
        """
        wanted = list(accuracy[: pool_size + 1])
        if not wanted or not all(0.5 < a < 1 for a in wanted):
            raise ValueError(f"accuracy must hold numbers between 0.5 and 1, not {list(accuracy)}")
        wanted += [wanted[-1]] * (pool_size - len(wanted))
        centres = [0.0]
        from_below = 0.0  # P(reading one less), the same as the neighbour's of reading one more
        for k in range(pool_size):
            upward = 1.0 - wanted[k] - from_below
            if not upward > 0:
                raise ValueError(
                    f"accuracy {wanted[k]:g} at count {k} cannot be: reading {k - 1} takes {from_below:g}"
                )
            centres.append(centres[-1] - 2.0 * float(scipy.special.ndtri(upward)))
            from_below = upward
        return cls.from_centres(centres)

    @classmethod
    def from_centres(cls, centres: ArrayLike) -> LatentNoise:
        """Noise with given centres, ascending."""
        positions = np.asarray(centres, dtype=np.float64)
        if positions.ndim != 1 or len(positions) < 2 or not (np.diff(positions) > 0).all():
            raise ValueError("centres must be at least two ascending numbers")
        between = (positions[1:] + positions[:-1]) / 2
        edges = np.concatenate([[-np.inf], between, [np.inf]])
        confusion = np.diff(scipy.special.ndtr(edges[None, :] - positions[:, None]), axis=1)
        return cls(confusion, positions)

    def sample(
        self, bad: ArrayLike, design: Pooling, generator: np.random.Generator, *, correlation: float = 0.0
    ) -> Readings:
        """Noisy readings with log-likelihoods; see `CountNoise.sample`."""
        counts, error = _latent_errors(bad, design, self.pool_size, generator, correlation)
        seen = self.centres[counts] + error  # (chunks, m)
        table = -0.5 * (seen[..., None] - self.centres) ** 2
        return Readings.soft((table - table.max(axis=-1, keepdims=True)).astype(np.float32))


def likelihoods_of(readings: Readings, noise: CountNoise | None, pool_size: int) -> NDArray[np.float64]:
    """Log-likelihoods of every count, largest 0: the readings' own or what `noise` says of their counts."""
    table: NDArray[Any]
    if readings.log_likelihoods is not None:
        table = readings.log_likelihoods.astype(np.float64)
    else:
        noise = CountNoise.nominal(pool_size) if noise is None else noise
        if noise.pool_size != pool_size:
            raise ValueError(
                f"the noise is for pools of {noise.pool_size} images, the design's hold {pool_size}"
            )
        table = noise.log_likelihoods(readings.counts)
    best = table.max(axis=-1, keepdims=True)
    impossible = ~np.isfinite(best[..., 0])
    if impossible.any():
        chunk, pool = np.argwhere(impossible)[0]
        raise ValueError(
            f"counts[{chunk}, {pool}] = {readings.counts[chunk, pool]} is impossible under this noise model"
        )
    return table - best


def prior_log_odds(priors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds of probabilities, finite also for 0 and 1, which no evidence overrules."""
    with np.errstate(divide="ignore"):
        log_odds = np.log(priors) - np.log1p(-priors)
    return np.clip(log_odds, -CERTAIN, CERTAIN)


def _latent_errors(
    bad: ArrayLike, design: Pooling, pool_size: int, generator: np.random.Generator, correlation: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """True counts and a standard normal error for every pool, correlated through shared images."""
    if design.pool_size != pool_size:
        raise ValueError(
            f"the noise is for pools of {pool_size} images, the design's hold {design.pool_size}"
        )
    if not 0 <= correlation <= 1:
        raise ValueError(f"correlation={correlation!r}, but it must lie between 0 and 1")
    flags = np.atleast_2d(np.asarray(bad))
    counts = design.counts(flags)  # refuses what is not 0 or 1
    error = generator.standard_normal(counts.shape)
    if correlation > 0:
        trait = generator.standard_normal(flags.shape)
        matrix = design.sparse.T
        from_bad = (trait * flags) @ matrix / np.sqrt(np.maximum(counts, 1))
        from_all = trait @ matrix / np.sqrt(np.maximum(design.pool_sizes, 1))
        shared = np.where(counts > 0, from_bad, from_all)
        error = np.sqrt(1 - correlation) * error + np.sqrt(correlation) * shared
    return counts, error
