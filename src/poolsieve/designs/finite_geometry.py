"""Balanced designs by arithmetic in finite fields: array codes and finite planes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST_CODE = 1024
"""Larger q need no field: only a pool size or weight above 32 makes the integers modulo q fail there."""
_LARGEST_PLANE = 64
"""Planes over larger fields have pools of more than 65 images."""


def array_code(images: int, pool_size: int, pools_per_image: int) -> NDArray[np.int64] | None:
    """The array code (Fan 2000): c groups of q = n/r disjoint pools, group i shifted by i·j in column j.

    Pool (i, s) holds the images (j, s − ij) for j = 0, …, r − 1. Two groups i, i' meet twice in one pair of
    columns j, j' exactly if (i − i')(j − j') = 0. Modulo q this never happens for prime q ≥ max(r, c), and
    for other q it depends; in the field of q elements it never happens when q is a power of a prime.

    Returns:
        The pools, or None if the code does not exist for these numbers.  # (m, r)
    """
    if images % pool_size:
        return None
    size = images // pool_size
    group = np.repeat(np.arange(pools_per_image), size)[:, None]  # (m, 1)
    offset = np.tile(np.arange(size), pools_per_image)[:, None]  # (m, 1)
    column = np.arange(pool_size)
    differences = np.multiply.outer(np.arange(1, pools_per_image), np.arange(1, pool_size))
    if (differences % size != 0).all():
        return column * size + (offset - group * column) % size
    if max(pool_size, pools_per_image) <= size <= _LARGEST_CODE and prime_power(size):
        field = FiniteField(size)
        # Adding instead of subtracting ij numbers the groups differently, no more.
        return column * size + field.add(offset, field.multiply(group, column))
    return None


def finite_plane(images: int, pool_size: int, pools_per_image: int) -> NDArray[np.int64] | None:
    """The projective plane over a field, the affine plane or its dual, if these are their numbers.

    With lines as pools, any two points of the projective plane of order q are on exactly one line:
    n = m = q² + q + 1, r = c = q + 1. Without one line and its points it is the affine plane, n = q²,
    r = q, c = q + 1; lines and points trade roles in the dual, n = q² + q, r = q + 1, c = q.

    Returns:
        The pools, or None if these are the numbers of no such plane.  # (m, r)
    """
    order = max(pool_size, pools_per_image) - 1
    if order > _LARGEST_PLANE or prime_power(order) is None:
        return None
    projective = (order**2 + order + 1, order + 1, order + 1)
    affine = (order**2, order, order + 1)
    dual = (order**2 + order, order + 1, order)
    parameters = (images, pool_size, pools_per_image)
    if parameters not in (projective, affine, dual):
        return None
    incidence = _projective_plane(order)
    if parameters == affine:
        incidence = incidence[1:, ~incidence[0]]
    elif parameters == dual:
        incidence = incidence[~incidence[:, 0], 1:]
    return np.nonzero(incidence)[1].reshape(-1, pool_size)


def _projective_plane(order: int) -> NDArray[np.bool_]:
    """Which lines hold which points: those with a·x = 0.  # (q² + q + 1, q² + q + 1)."""
    field = FiniteField(order)
    elements = np.arange(order)
    first, second = (grid.ravel() for grid in np.meshgrid(elements, elements, indexing="ij"))
    one, zero = np.ones_like, np.zeros_like
    points = np.concatenate(  # the first coordinate that is not 0 is 1
        [
            np.stack([one(first), first, second], axis=1),
            np.stack([zero(elements), one(elements), elements], axis=1),
            [[0, 0, 1]],
        ]
    )
    total = np.zeros((len(points), len(points)), dtype=np.int64)
    for axis in range(3):
        total = field.add(total, field.multiply(points[:, None, axis], points[None, :, axis]))
    return total == 0


def prime_power(number: int) -> tuple[int, int] | None:
    """The prime p and exponent e with p^e = number, or None."""
    if number < 2:
        return None
    prime = next((p for p in range(2, int(number**0.5) + 1) if number % p == 0), number)
    exponent = 0
    while number % prime == 0:
        number //= prime
        exponent += 1
    return (prime, exponent) if number == 1 else None


class FiniteField:
    """The field of `order` elements 0, …, order − 1: the digits of a number to base p are a polynomial.

    Products go through tables of powers of x modulo a primitive polynomial. The first polynomial for which
    the powers of x run through all elements but 0 is taken; that property also makes it a field.
    """

    def __init__(self, order: int) -> None:
        parts = prime_power(order)
        if parts is None:
            raise ValueError(f"there is no field of {order} elements: that is no power of a prime")
        self.order = order
        self._prime, self._exponent = parts
        self._powers = next(
            powers for low in range(1, order) if (powers := self._powers_of_x(low)) is not None
        )
        self._logs = np.zeros(order, dtype=np.int64)
        self._logs[self._powers] = np.arange(order - 1)

    def _powers_of_x(self, low: int) -> NDArray[np.int64] | None:
        """Powers of x if x^e = `low` makes them run through the field, else None.  # (order − 1,)."""
        powers = np.empty(self.order - 1, dtype=np.int64)
        top = self._prime ** (self._exponent - 1)
        element = 1
        for k in range(len(powers)):
            powers[k] = element
            carry, rest = divmod(element, top)
            element = rest * self._prime
            for _ in range(carry):
                element = int(self.add(element, low))
            if element == 1:
                return powers if k == len(powers) - 1 else None
        return None

    def add(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.int64]:
        """Sum, digit by digit without carrying."""
        a, b = np.asarray(a), np.asarray(b)
        total = np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.int64)
        for place in (self._prime**k for k in range(self._exponent)):
            total += (a // place + b // place) % self._prime * place
        return total

    def multiply(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.int64]:
        """Product."""
        a, b = np.asarray(a), np.asarray(b)
        product = self._powers[(self._logs[a] + self._logs[b]) % (self.order - 1)]
        return np.where((a == 0) | (b == 0), 0, product)
