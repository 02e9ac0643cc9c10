"""Which images and pools a training epoch sees.

Every draw is a function of (seed, purpose, epoch), so an interrupted run continues with exactly the batches
that an uninterrupted one would have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from scipy.stats import binom

if TYPE_CHECKING:
    from poolsieve.training.settings import TrainingSettings

PAPER_SHARES = (0.40, 0.24, 0.12, 0.06, 0.06, 0.03, 0.03, 0.03, 0.03)
"""Shares of training pools with 0..8 bad images ("Pooled Dataset Splits" of the paper)."""


@dataclass(frozen=True)
class PoolBatch:
    """Pools drawn for one epoch or one evaluation.

    Attributes:
        members: Positions of the images of each pool, bad ones not first.  # (pools, r)
        counts: Number of bad images of each pool.  # (pools,)
    """

    members: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class Batch:
    """The images or the pools of one step.

    Attributes:
        positions: Positions of the images.  # (n,) or (pools, r)
        counts: Labels of the images, or numbers of bad images.  # (n,) or (pools,)
        rng: Draws the views of the images.
    """

    positions: NDArray[np.int64]
    counts: NDArray[np.int64]
    rng: np.random.Generator


def epoch_generator(seed: int, purpose: str, epoch: int) -> np.random.Generator:
    """The random state of one epoch of one purpose, independent of all others."""
    return np.random.default_rng([seed, *purpose.encode(), epoch])


def pool_shares(pool_size: int) -> NDArray[np.float64]:
    """The default distribution of bad images over training pools of any size.  # (pool_size + 1,).

    For eight images it is the paper's. For others the paper's shares are read as a curve over k and the
    tail is carried on or cut: 0, 1, 2, ... keep the proportions 40 : 24 : 12 : 6 : 6 : 3 : 3 ..., since it is
    the number of bad images, not their share of the pool, that prevalence makes rare.
    """
    if pool_size < 1:
        raise ValueError(f"a pool of {pool_size} images is none; the pool size is at least 1")
    weights = np.full(pool_size + 1, PAPER_SHARES[-1])
    known = min(pool_size + 1, len(PAPER_SHARES))
    weights[:known] = PAPER_SHARES[:known]
    return weights / weights.sum()


def check_shares(shares: ArrayLike, pool_size: int) -> NDArray[np.float64]:
    """Shares given by a user, scaled to sum to 1; raises ValueError if they are none."""
    weights = np.asarray(shares, dtype=np.float64)
    if weights.shape != (pool_size + 1,):
        raise ValueError(
            f"{weights.size} shares were given for pools of {pool_size}; "
            f"{pool_size + 1} are needed, for 0..{pool_size} bad images"
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or weights.sum() <= 0:
        raise ValueError(f"shares must be numbers from 0 on, not all 0, but they are {weights.tolist()}")
    return weights / weights.sum()


def split_by_shares(total: int, shares: ArrayLike) -> NDArray[np.int64]:
    """Whole numbers that sum to `total` and are nearest to the shares (largest remainders)."""
    exact = np.asarray(shares, dtype=np.float64) * total
    numbers = np.floor(exact + 1e-9).astype(np.int64)
    rest = total - int(numbers.sum())
    order = np.argsort(-(exact - numbers), kind="stable")
    numbers[order[:rest]] += 1
    return numbers


def balanced_number(flagged: int, ordinary: int, settings: TrainingSettings) -> int:
    """Images of each class in an epoch of single images."""
    if min(flagged, ordinary) == 0:
        raise ValueError("balanced sampling needs images of both classes")
    return flagged if settings.balance == "flagged" else min(flagged, ordinary)


def draw_balanced(labels: NDArray[np.int64], number: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of so many images of each class, with replacement where there are fewer.  # (2·number,)."""
    classes = (np.flatnonzero(labels == label) for label in (1, 0))
    return np.concatenate([rng.choice(c, number, replace=len(c) < number) for c in classes])


def balanced_batches(
    labels: NDArray[np.int64], size: int, settings: TrainingSettings, purpose: str, epoch: int
) -> list[Batch]:
    """An epoch of single images in random order, `size` in a batch, but for the last.

    All images of one class (`settings.balance`), each once, and equally many of the other, of which some come
    again only if there are fewer.
    """
    rng = epoch_generator(settings.seed, purpose, epoch)
    flagged = int(labels.sum())
    number = balanced_number(flagged, len(labels) - flagged, settings)
    order = rng.permutation(draw_balanced(labels, number, rng))
    parts = [order[begin : begin + size] for begin in range(0, len(order), size)]
    return [
        Batch(part, labels[part], epoch_generator(settings.seed, f"{purpose} views {k}", epoch))
        for k, part in enumerate(parts)
    ]


def pool_batches(
    labels: NDArray[np.int64],
    pool_sizes: Sequence[int],
    batch: int,
    settings: TrainingSettings,
    purpose: str,
    epoch: int,
) -> list[tuple[Batch, ...]]:
    """An epoch of pools, equally many of each size; a step has `batch` pools of every size.

    A last batch of one pool, which would break batch norm, is left out.
    """
    number, by_size = max(2, -(-settings.pools_per_epoch // len(pool_sizes))), []
    for size in pool_sizes:
        pools = seeded_pools(labels, settings.pool_numbers(size, number), settings.seed, purpose, epoch)
        by_size.append(
            [
                Batch(
                    pools.members[begin : begin + batch],
                    pools.counts[begin : begin + batch],
                    epoch_generator(settings.seed, f"{purpose} views {size} {k}", epoch),
                )
                for k, begin in enumerate(range(0, number - 1, batch))
            ]
        )
    return list(zip(*by_size, strict=True))


def seeded_pools(
    labels: NDArray[np.int64],
    numbers: Sequence[int] | NDArray[np.int64],
    seed: int,
    purpose: str,
    epoch: int = 0,
) -> PoolBatch:
    """Pools as `draw_pools` draws them, the same for the same seed, purpose and epoch."""
    return draw_pools(labels, numbers, epoch_generator(seed, f"{purpose} pools {len(numbers) - 1}", epoch))


def clean_numbers(pool_size: int, number: int) -> list[int]:
    """What `draw_pools` takes to draw pools without any bad image."""
    return [number] + [0] * pool_size


def draw_pools(
    labels: ArrayLike, numbers: Sequence[int] | NDArray[np.int64], rng: np.random.Generator
) -> PoolBatch:
    """Draw pools, `numbers[k]` of them with exactly k bad images, in random order.

    The images of one pool are distinct. Over the whole draw every image of a class is used once before any
    is used again, so that an epoch shows as many different images as it can.

    Args:
        labels: 0/1 labels of the images to draw from.
        numbers: Pools wanted with 0..r bad images; its length sets r.
        rng: Random state.
    """
    pool_size = len(numbers) - 1
    counts = rng.permutation(np.repeat(np.arange(pool_size + 1), numbers))
    values = np.asarray(labels)
    bad, ordinary = np.flatnonzero(values == 1), np.flatnonzero(values == 0)
    require_enough(len(bad), len(ordinary), numbers)
    bad_deck, ordinary_deck = _Deck(bad, rng), _Deck(ordinary, rng)
    members = np.empty((len(counts), pool_size), dtype=np.int64)
    for row, count in enumerate(counts):
        members[row, :count] = bad_deck.deal(int(count))
        members[row, count:] = ordinary_deck.deal(pool_size - int(count))
    return PoolBatch(rng.permuted(members, axis=1), counts)


def require_enough(bad: int, ordinary: int, numbers: ArrayLike, where: str = "the data") -> None:
    """Raise ValueError unless one pool of every wanted count can be filled with distinct images."""
    wanted = np.flatnonzero(np.asarray(numbers))
    pool_size = len(np.asarray(numbers)) - 1
    if not len(wanted):
        raise ValueError("no pools were asked for")
    most_bad, most_ordinary = int(wanted.max()), pool_size - int(wanted.min())
    for have, need, kind in ((bad, most_bad, "bad"), (ordinary, most_ordinary, "ordinary")):
        if have < need:
            raise ValueError(
                f"{where} has {have} {kind} image{'s' * (have != 1)}, but pools of {pool_size} with up to "
                f"{need} {kind} ones need {need}; add images, or choose a smaller pool size"
            )


class _Deck:
    """Deals items in random order, shuffling anew when it runs out; one deal never repeats an item."""

    def __init__(self, items: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._items, self._rng, self._left = items, rng, rng.permutation(items)

    def deal(self, number: int) -> NDArray[np.intp]:
        if number <= len(self._left):
            dealt, self._left = self._left[:number], self._left[number:]
            return dealt
        rest, fresh = self._left, self._rng.permutation(self._items)
        # Those just dealt go to the end of the new deck, so that they cannot be dealt twice in this pool.
        again = np.isin(fresh, rest)
        deck = np.concatenate([rest, fresh[~again], fresh[again]])
        self._left = deck[number:]
        return deck[:number]


def weighted_accuracy(counts: ArrayLike, predicted: ArrayLike, pool_size: int, prevalence: float) -> float:
    """Accuracy on pools weighted by how often each count occurs: Σ_k Binom(r, p, k) Acc_k.

    See "Training" of the paper. Counts with no pool are left out and the weights of the others scaled up.
    """
    true, read = np.asarray(counts), np.asarray(predicted)
    return weighted_mean(true, (read == true).astype(np.float64), pool_size, prevalence)


def weighted_likelihood(counts: ArrayLike, logits: ArrayLike, prevalence: float) -> float:
    """Mean log-likelihood of the true counts, weighted by how often each occurs as in `weighted_accuracy`.

    Args:
        counts: True counts.  # (pools,)
        logits: Outputs of a counting network.  # (pools, r + 1)
        prevalence: Prevalence p.
    """
    true, table = np.asarray(counts), log_softmax(np.asarray(logits, dtype=np.float64), axis=1)
    return weighted_mean(true, table[np.arange(len(true)), true], table.shape[1] - 1, prevalence)


def weighted_mean(
    counts: NDArray[np.int64], values: NDArray[np.float64], pool_size: int, prevalence: float
) -> float:
    """The mean over counts of the mean over pools of each, weighted by Binom(r, p, k)."""
    kinds = [k for k in range(pool_size + 1) if np.any(counts == k)]
    if not kinds:
        raise ValueError("there are no pools to measure")
    means = np.array([values[counts == k].mean() for k in kinds])
    weights = binom.pmf(kinds, pool_size, prevalence)
    return float(weights @ means / weights.sum())
