"""Which balanced designs can exist: the counting bounds, and the parameters near those that break them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import index
from typing import NamedTuple

MOST_PLACES = 20_000_000


def whole(name: str, value: int) -> int:
    """The value as an int if it is a whole number of at least 1, else an error that names it."""
    try:
        number = index(value)
    except TypeError:
        raise ValueError(f"{name}={value!r} is not a whole number") from None
    if number < 1:
        raise ValueError(f"{name}={number} is not positive")
    return number


class Parameters(NamedTuple):
    """Size of a balanced design: n images, pools of r, every image in c pools."""

    images: int
    pool_size: int
    pools_per_image: int

    @classmethod
    def checked(cls, images: int, pool_size: int, pools_per_image: int) -> Parameters:
        """Whole numbers of at least 1, or an error that says which one is not."""
        values = zip(cls._fields, (images, pool_size, pools_per_image), strict=True)
        checked = cls(*(whole(name, value) for name, value in values))
        places = checked.images * checked.pools_per_image
        if places > MOST_PLACES:
            raise ValueError(
                f"{checked.images:,} images × {checked.pools_per_image:,} pools per image are {places:,} "
                f"places, more than the {MOST_PLACES:,} allowed: cut the images into smaller chunks"
            )
        return checked

    @property
    def pool_count(self) -> int:
        """Number of pools m = nc/r."""
        return self.images * self.pools_per_image // self.pool_size

    def __str__(self) -> str:
        return (
            f"images={self.images}, pool_size={self.pool_size}, pools_per_image={self.pools_per_image} "
            f"({self.pool_count} pools)"
        )


def broken_regularity(parameters: Parameters) -> str | None:
    """Why no matrix of n columns has r ones in each row and c in each column, or None."""
    n, r, c = parameters
    if r > n:
        return f"a pool of {r} needs at least {r} images, and there are {n}"
    if n * c % r:
        return (
            f"m·r = n·c fails: {n} images × {c} pools per image = {n * c} places, which is no multiple of "
            f"the pool size {r}"
        )
    return None


def broken_bound(parameters: Parameters) -> str | None:
    """Why no balanced design with single overlaps has these numbers, or None where the bounds allow it.

    The bounds count neighbours: the c pools of an image hold c(r − 1) different other images, and the r
    images of a pool are in r(c − 1) different other pools.
    """
    n, r, c = parameters
    if n * c % r or r > n:
        return broken_regularity(parameters)
    if c * (r - 1) > n - 1:
        return f"c(r − 1) ≤ n − 1 fails: {c}·({r} − 1) = {c * (r - 1)} > {n - 1} = {n} − 1"
    m = parameters.pool_count
    if r * (c - 1) > m - 1:
        return f"r(c − 1) ≤ m − 1 fails: {r}·({c} − 1) = {r * (c - 1)} > {m - 1} = {m} − 1"
    return None


def larger(parameters: Parameters) -> Iterator[Parameters]:
    """Feasible numbers of images above n for the same r and c, ascending without end."""
    n, r, c = parameters
    step = r // math.gcd(r, c)
    # The bounds, solved for n: n ≥ c(r − 1) + 1, and nc/r ≥ r(c − 1) + 1.
    least = max(c * (r - 1) + 1, -(-r * (r * (c - 1) + 1) // c), n + 1)
    candidate = -(-least // step) * step
    while True:
        yield Parameters(candidate, r, c)
        candidate += step


def smaller(parameters: Parameters) -> Iterator[Parameters]:
    """Feasible numbers of images below n for the same r and c, descending."""
    n, r, c = parameters
    step = r // math.gcd(r, c)
    for candidate in range((n - 1) // step * step, 0, -step):
        choice = Parameters(candidate, r, c)
        if broken_bound(choice):
            return
        yield choice


def lighter(parameters: Parameters) -> Iterator[Parameters]:
    """Feasible numbers of pools per image below c for the same n and r, descending."""
    n, r, c = parameters
    # No image can have more than (n − 1)/(r − 1) pools, so do not start above that.
    most = c - 1 if r == 1 else min(c - 1, (n - 1) // (r - 1))
    for fewer in range(most, 0, -1):
        choice = Parameters(n, r, fewer)
        if broken_bound(choice) is None:
            yield choice


def shorter(parameters: Parameters) -> Iterator[Parameters]:
    """Feasible pool sizes below r for the same n and c, descending."""
    n, r, c = parameters
    for fewer in range(min(r - 1, (n - 1) // c + 1), 1, -1):
        choice = Parameters(n, fewer, c)
        if broken_bound(choice) is None:
            yield choice


def regular_neighbours(parameters: Parameters) -> list[Parameters]:
    """The nearest numbers of images, below and above n, with which r divides nc and r ≤ n."""
    n, r, c = parameters
    step = r // math.gcd(r, c)
    candidates = (n // step * step, max(-(-n // step), -(-r // step)) * step)
    return [Parameters(candidate, r, c) for candidate in candidates if candidate >= r]
