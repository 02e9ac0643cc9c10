"""Arithmetic in small finite fields, for the designs that geometry gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
