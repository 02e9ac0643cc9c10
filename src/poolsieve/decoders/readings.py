"""What the pooled network says of each pool: a count, and optionally how likely each count is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.designs import Pooling


@dataclass(frozen=True)
class Readings:
    """Readings y of all pools in many chunks.

    Attributes:
        counts: Number of bad images that each pool reports.  # (chunks, m)
        log_likelihoods: log P(what the network saw | k bad images) for k = 0..r, up to a constant for each
            pool, or None if only counts are known.  # (chunks, m, r + 1)
    """

    counts: NDArray[np.int64]
    log_likelihoods: NDArray[np.floating[Any]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", _whole_numbers(self.counts))
        if self.log_likelihoods is None:
            return
        table = np.asarray(self.log_likelihoods)
        if not np.issubdtype(table.dtype, np.floating):
            table = table.astype(np.float64)
        if table.ndim == 2:
            table = table[None]
        if table.ndim != 3 or table.shape[:2] != self.counts.shape:
            raise ValueError(
                f"log_likelihoods must have shape (chunks, pools, counts) to match counts of shape "
                f"{self.counts.shape}, not {table.shape}"
            )
        unusable = np.isnan(table) | (table == np.inf)
        if unusable.any():
            where = tuple(int(i) for i in np.argwhere(unusable)[0])
            raise ValueError(f"log_likelihoods{list(where)} is {table[where]}; it must be a number or −inf")
        impossible = ~np.isfinite(table).any(axis=2)
        if impossible.any():
            chunk, pool = np.argwhere(impossible)[0]
            raise ValueError(
                f"log_likelihoods[{chunk}, {pool}] is −inf for every count: no count explains it"
            )
        object.__setattr__(self, "log_likelihoods", table)

    @classmethod
    def soft(cls, log_likelihoods: ArrayLike) -> Readings:
        """Soft readings; the count of a pool is its most likely one (the smallest of several)."""
        table = np.asarray(log_likelihoods)
        if table.ndim not in (2, 3) or 0 in table.shape:
            raise ValueError(f"log_likelihoods must have shape (chunks, pools, counts), not {table.shape}")
        return cls(np.nan_to_num(table, nan=-np.inf).argmax(axis=-1), table)

    @classmethod
    def from_binary(cls, log_likelihoods: ArrayLike, pool_size: int) -> Readings:
        """Soft readings of a binary pooled network, whose two outputs mean "no bad image" and "some".

        Every count above zero is as likely as "some".  # (chunks, m, 2)
        """
        table = np.asarray(log_likelihoods, dtype=np.float64)
        if table.shape[-1:] != (2,):
            raise ValueError(f"binary log_likelihoods end in 2 outputs; got shape {table.shape}")
        return cls.soft(np.concatenate([table[..., :1], np.repeat(table[..., 1:], pool_size, axis=-1)], -1))

    @classmethod
    def coerce(cls, readings: Readings | ArrayLike) -> Readings:
        """Readings as they are, or an array of counts for one chunk (m,) or many (chunks, m)."""
        return readings if isinstance(readings, Readings) else cls(np.asarray(readings))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.counts)

    def hard(self) -> Readings:
        """The counts alone."""
        return Readings(self.counts)

    def block(self, start: int, stop: int) -> Readings:
        """Chunks `start` to `stop`, without copying."""
        table = self.log_likelihoods
        return Readings(self.counts[start:stop], None if table is None else table[start:stop])

    def check(self, design: Pooling) -> None:
        """Raise ValueError, saying what and where, if these readings cannot come from the design."""
        pools = self.counts.shape[1]
        if pools != design.pool_count:
            raise ValueError(f"the design has {design.pool_count} pools, the readings have {pools}")
        wrong = (self.counts < 0) | (self.counts > design.pool_size)
        if wrong.any():
            chunk, pool = np.argwhere(wrong)[0]
            raise ValueError(
                f"counts[{chunk}, {pool}] = {self.counts[chunk, pool]}; "
                f"a pool of {design.pool_size} images holds 0 to {design.pool_size} bad ones"
            )
        if self.log_likelihoods is not None and self.log_likelihoods.shape[2] != design.pool_size + 1:
            raise ValueError(
                f"log_likelihoods give {self.log_likelihoods.shape[2]} counts for each pool; "
                f"a pool of {design.pool_size} images has {design.pool_size + 1} (0 to {design.pool_size})"
            )


def remove_training_prior(logits: ArrayLike, training_prior: ArrayLike) -> NDArray[np.float64]:
    """Turn the outputs of a network trained with cross-entropy into log-likelihoods of the counts.

    A softmax gives P(count | pool) under the distribution of counts it was trained on (the paper draws
    40/24/12/6/6/3/3/3/3 %). Dividing that distribution out leaves P(pool | count) up to a constant, which
    is what a decoder with its own prior needs.

    Args:
        logits: Unnormalised log-probabilities.  # (..., r + 1)
        training_prior: Share of training pools with each count.  # (r + 1,)
    """
    table = np.asarray(logits, dtype=np.float64)
    prior = np.asarray(training_prior, dtype=np.float64)
    if prior.ndim != 1 or table.shape[-1:] != prior.shape:
        raise ValueError(f"training_prior has shape {prior.shape}, the logits end in {table.shape[-1:]}")
    if np.isnan(table).any():
        raise ValueError("the logits hold NaN")
    if not np.isfinite(prior).all() or (prior <= 0).any():
        raise ValueError(
            "training_prior must be above zero for every count: a count never trained has no output"
        )
    return scipy.special.log_softmax(table, axis=-1) - np.log(prior / prior.sum())


def _whole_numbers(counts: ArrayLike) -> NDArray[np.int64]:
    table = np.asarray(counts)
    if table.ndim == 1:
        table = table[None]
    if table.ndim != 2:
        raise ValueError(f"counts must have shape (chunks, pools) or (pools,), not {table.shape}")
    if np.issubdtype(table.dtype, np.integer) or table.dtype == bool:
        return table.astype(np.int64, copy=False)
    if not np.issubdtype(table.dtype, np.floating):
        raise ValueError(f"counts must be whole numbers, not {table.dtype}")
    fractional = ~np.isfinite(table) | (table != np.round(table))
    if fractional.any():
        chunk, pool = np.argwhere(fractional)[0]
        raise ValueError(f"counts[{chunk}, {pool}] = {table[chunk, pool]}; counts must be whole numbers")
    return np.clip(table, -(2**31), 2**31).astype(np.int64)  # what is out of range stays so
