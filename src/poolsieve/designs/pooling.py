"""Which images share which pool: the pooling matrix Φ of the paper, as immutable index arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.designs import matrix_files
from poolsieve.files import write_atomically

NO_IMAGE = -1
"""Marks an empty place in `Pooling.pools` and `Pooling.pools_of`."""
_MOST_IMAGES = 20_000_000
"""More is a mistake or a damaged file; it also keeps image numbers within int32."""


@dataclass(frozen=True)
class Guarantees:
    """What holds for a pooling, checked rather than claimed.

    Attributes:
        equal_pools: Every pool holds the same number of images.
        equal_images: Every image is in the same number of pools.
        max_shared: The most images that any two pools have in common (0 with disjoint pools).
    """

    equal_pools: bool
    equal_images: bool
    max_shared: int

    @property
    def single_overlap(self) -> bool:
        """Any two pools share at most one image, which is the same as any two images sharing one pool."""
        return self.max_shared <= 1

    def __str__(self) -> str:
        """One line for people."""
        pools = "pools of equal size" if self.equal_pools else "pools of different sizes"
        images = (
            "every image in as many pools" if self.equal_images else "images in different numbers of pools"
        )
        shared = (
            f"two pools share at most {self.max_shared} image{'s' * (self.max_shared != 1)}"
            if self.max_shared
            else "no two pools share an image"
        )
        return f"{pools}, {images}, {shared}"


class Pooling:
    """Any assignment of images to pools.

    This is the general form: pools may have different sizes, as in a last short chunk, and may overlap
    freely, as in random designs. `PoolingDesign` is the checked, balanced form that the paper asks for.

    Args:
        pools: One sequence of image numbers per pool, or an array (m, r) in which −1 is an empty place.
        images: Number of images n. Images that are in no pool are allowed here.
        pool_size: Places in a pool, i.e. the largest count that a pool may report; by default the size of
            the largest pool.
    """

    def __init__(
        self, pools: ArrayLike | Iterable[Iterable[int]], images: int, *, pool_size: int | None = None
    ) -> None:
        images = index(images)
        if not 1 <= images <= _MOST_IMAGES:
            raise ValueError(f"a design has 1 to {_MOST_IMAGES} images, not {images}")
        given = _sorted_rows(pools, images) if isinstance(pools, np.ndarray) else None
        if given is None:  # one pool after the other, to say what is wrong with which
            given = _rows([_members_of(pool, q, images) for q, pool in enumerate(pools)])  # type: ignore[arg-type]
        if not len(given):
            raise ValueError("a design needs at least one pool")
        largest = int((given != NO_IMAGE).sum(axis=1).max())
        size = largest if pool_size is None else index(pool_size)
        if size < largest:
            raise ValueError(f"pool_size={size}, but one pool holds {largest} images")
        table = np.full((len(given), max(size, 1)), NO_IMAGE, dtype=np.int32)
        table[:, :largest] = given[:, :largest]
        self._images = images
        self._pools = _frozen(table)
        self._check()

    def _check(self) -> None:
        """What subclasses demand beyond membership; raises ValueError."""

    # ---- shape

    @property
    def images(self) -> int:
        """Number of images n."""
        return self._images

    @property
    def pool_count(self) -> int:
        """Number of pools m."""
        return len(self._pools)

    @property
    def pool_size(self) -> int:
        """Places in a pool r, which is the largest count that a pool may report."""
        return int(self._pools.shape[1])

    @property
    def pools_per_image(self) -> int:
        """The most pools that any image is in, c."""
        return int(self.pools_of.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Pools × images, the shape of Φ."""
        return self.pool_count, self.images

    # ---- index arrays

    @property
    def pools(self) -> NDArray[np.int32]:
        """Images of each pool, ascending, −1 behind them where a pool is short.  # (m, r)."""
        return self._pools

    @cached_property
    def pool_sizes(self) -> NDArray[np.int64]:
        """Number of images in each pool.  # (m,)."""
        return _frozen((self._pools != NO_IMAGE).sum(axis=1))

    @cached_property
    def image_weights(self) -> NDArray[np.int64]:
        """Number of pools each image is in.  # (n,)."""
        return _frozen(np.bincount(self._pools[self._pools != NO_IMAGE], minlength=self.images))

    @cached_property
    def _places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """For each image its pools and its place in each of them.  # two of (n, c)."""
        pool, place = np.nonzero(self._pools != NO_IMAGE)
        image = self._pools[pool, place]
        order = np.argsort(image, kind="stable")
        image, pool, place = image[order], pool[order], place[order]
        weights = self.image_weights
        rank = np.arange(len(image)) - np.repeat(np.cumsum(weights) - weights, weights)
        width = max(int(weights.max()), 1)
        pools_of = np.full((self.images, width), NO_IMAGE, dtype=np.int32)
        places_of = np.full((self.images, width), NO_IMAGE, dtype=np.int32)
        pools_of[image, rank] = pool
        places_of[image, rank] = place
        return _frozen(pools_of), _frozen(places_of)

    @property
    def pools_of(self) -> NDArray[np.int32]:
        """Pools of each image, ascending, −1 behind them where an image is in fewer.  # (n, c)."""
        return self._places[0]

    @property
    def places_of(self) -> NDArray[np.int32]:
        """`pools[pools_of[j, u], places_of[j, u]] == j`.  # (n, c)."""
        return self._places[1]

    # ---- matrix views

    @cached_property
    def sparse(self) -> scipy.sparse.csr_array:
        """Φ as a sparse matrix of int32, read-only like the index arrays.  # (m, n)."""
        pool, place = np.nonzero(self._pools != NO_IMAGE)
        ones = np.ones(len(pool), dtype=np.int32)
        matrix = scipy.sparse.csr_array((ones, (pool, self._pools[pool, place])), shape=self.shape)
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
        return matrix

    def dense(self) -> NDArray[np.int8]:
        """Φ as a dense 0/1 matrix, made anew on each call.  # (m, n)."""
        return self.sparse.toarray().astype(np.int8)

    def counts(self, bad: ArrayLike) -> NDArray[np.int64]:
        """True number of bad images in each pool, Φx, for one chunk (n,) or many (chunks, n)."""
        flags = np.asarray(bad)
        if flags.shape[-1:] != (self.images,):
            raise ValueError(f"the design has {self.images} images, but `bad` has shape {flags.shape}")
        if flags.dtype != bool and not ((flags == 0) | (flags == 1)).all():
            raise ValueError("`bad` holds values other than 0 and 1")
        padded = np.concatenate([flags != 0, np.zeros((*flags.shape[:-1], 1), dtype=bool)], axis=-1)
        total = np.zeros((*flags.shape[:-1], self.pool_count), dtype=np.int64)
        for place in range(self.pool_size):  # −1 finds the extra column of zeros
            total += padded[..., self._pools[:, place]]
        return total

    # ---- what holds

    @cached_property
    def guarantees(self) -> Guarantees:
        """What holds for this pooling, found in one pass over the overlaps of its pools."""
        sizes, weights = self.pool_sizes, self.image_weights
        return Guarantees(
            equal_pools=bool((sizes == self.pool_size).all()),
            equal_images=bool((weights == weights[0]).all()),
            max_shared=int(self._overlaps().data.max(initial=0)),
        )

    def _overlaps(self) -> scipy.sparse.coo_array:
        """Number of images that each pair of pools a < b shares, where that is not 0.  # (m, m) sparse."""
        return scipy.sparse.triu(self.sparse @ self.sparse.T, k=1, format="coo")

    # ---- smaller schemes

    def restrict(self, images: int) -> Pooling:
        """The scheme for a chunk of only the first `images` images.

        The missing images are known negatives, so leaving them out changes no count: pools become shorter,
        and pools that held none of the remaining images vanish. Every remaining image keeps all its pools,
        and `pool_size` stays what it was, because a network that counts to r still does. With all images it
        is the design itself.
        """
        if not 1 <= images <= self.images:
            raise ValueError(f"restrict takes 1 to {self.images} images, not {images}")
        if images == self.images:
            return self
        kept = [pool[(pool != NO_IMAGE) & (pool < images)] for pool in self._pools]
        nonempty = [pool for pool in kept if len(pool)]
        return Pooling(nonempty or [[]], images, pool_size=self.pool_size)

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the design; `.npz` gives a compact archive, any other ending a text matrix of 0 and 1."""
        target = Path(path)
        if target.suffix == ".npz":
            return write_atomically(target, matrix_files.encode_archive(self._pools, self.images))
        return write_atomically(target, matrix_files.encode_text(self.dense()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a design written by `save`, or any text file with a matrix of 0 and 1.

        Entries of a text matrix may stand together or be set apart by spaces, tabs, commas or semicolons, and
        may be written as 1.0 or 1.00e+00; lines that start with `#` or `%` are comments. A text matrix does
        not tell `pool_size`, which is then the size of its largest pool. `PoolingDesign.load` also checks
        balance and overlap.

        Raises:
            ValueError: The file is not a design; the message names the file and the place.
        """
        source = Path(path)
        data = source.read_bytes()
        try:
            stored = matrix_files.decode(data)
            return cls(stored.pools, stored.images, pool_size=stored.pool_size)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from None

    # ---- identity

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the design's content; the same on every machine and in every version."""
        header = f"poolsieve design {self.images} {self.pool_count} {self.pool_size};".encode()
        return hashlib.sha256(header + self._pools.astype("<i4").tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pooling):
            return NotImplemented
        return self.images == other.images and np.array_equal(self._pools, other._pools)

    def __hash__(self) -> int:
        return int(self.fingerprint[:15], 16)

    def __setattr__(self, name: str, value: Any) -> None:
        # `cached_property` writes to __dict__ directly and so still works.
        if name in self.__dict__:
            raise AttributeError(f"designs are immutable: cannot set {name!r}; make a new design instead")
        if name not in ("_images", "_pools"):
            raise AttributeError(f"designs are immutable: cannot set {name!r}")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew, because numpy restores arrays as writeable ones.
        return _restored, (type(self), self._pools, self._images)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.pool_count} pools × {self.images} images, "
            f"pool size {self.pool_size}, {self.pools_per_image} pools per image, {self.fingerprint[:8]}>"
        )


class PoolingDesign(Pooling):
    """A balanced pooling with single overlaps, checked when it is made (paper, appendix "Choice of Φ").

    m pools of exactly r images, every image in exactly c pools, any two images share at most one pool and
    any two pools at most one image. Both overlap conditions say the same (Φ has no 2×2 block of ones), so
    one pass over the sparse overlaps of the pools settles them.

    Raises:
        ValueError: A condition fails; the message names the pools or images where it does.
    """

    def _check(self) -> None:
        sizes = self.pool_sizes
        if (sizes != self.pool_size).any():
            q = int(np.argmax(sizes != self.pool_size))
            raise ValueError(
                f"pool {q} holds {sizes[q]} images and not {self.pool_size}; all pools must be equal"
            )
        weights = self.image_weights
        if (weights != weights[0]).any():
            j = int(np.argmax(weights != weights[0]))
            raise ValueError(
                f"image {j} is in {weights[j]} pools and image 0 in {weights[0]}; "
                "all images must be in equally many"
            )
        shared = self._overlaps()
        if shared.data.max(initial=0) > 1:
            worst = int(np.argmax(shared.data > 1))
            a, b = int(shared.row[worst]), int(shared.col[worst])
            images = np.intersect1d(self._pools[a], self._pools[b])
            raise ValueError(
                f"pools {a} and {b} share {len(images)} images ({', '.join(map(str, images[:4]))}): "
                "two pools may share at most one (the matrix has a 2×2 block of ones)"
            )


def _restored(kind: type[Pooling], pools: NDArray[np.int32], images: int) -> Pooling:
    return kind(pools, images, pool_size=pools.shape[1])


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _sorted_rows(pools: NDArray[Any], images: int) -> NDArray[np.int32] | None:
    """A table of pools with each row in order and empty places last; None if anything is wrong with it."""
    if pools.ndim != 2 or not np.issubdtype(pools.dtype, np.integer):
        return None
    if pools.size and (pools.min() < NO_IMAGE or pools.max() >= images):
        return None
    rows = np.sort(np.where(pools == NO_IMAGE, images, pools), axis=1)
    if ((rows[:, 1:] == rows[:, :-1]) & (rows[:, 1:] < images)).any():
        return None
    return np.where(rows == images, NO_IMAGE, rows).astype(np.int32)


def _rows(members: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Pools as a table, with empty places last."""
    table = np.full((len(members), max(map(len, members), default=0)), NO_IMAGE, dtype=np.int32)
    for row, pool in zip(table, members, strict=True):
        row[: len(pool)] = pool
    return table


def _members_of(pool: Iterable[int], q: int, images: int) -> NDArray[np.int32]:
    """Sorted members of pool q without empty places, checked."""
    members = np.asarray(list(pool) if not isinstance(pool, np.ndarray) else pool)
    if members.ndim != 1 or (members.size and not np.issubdtype(members.dtype, np.integer)):
        raise ValueError(f"pool {q} is not a list of image numbers: {members!r}")
    members = np.sort(members[members != NO_IMAGE])
    if members.size and (members[0] < 0 or members[-1] >= images):
        wrong = members[0] if members[0] < 0 else members[-1]
        raise ValueError(f"pool {q} names image {wrong}, but images are numbered 0 to {images - 1}")
    repeated = members[1:][members[1:] == members[:-1]]
    if repeated.size:
        raise ValueError(f"pool {q} holds image {repeated[0]} twice")
    return members.astype(np.int32)
