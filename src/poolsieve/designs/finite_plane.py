"""Finite planes: the designs that meet the counting bounds with equality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolsieve.designs.finite_field import FiniteField, prime_power

_LARGEST_FIELD = 64
"""Planes over larger fields have pools of more than 65 images."""


def finite_plane(images: int, pool_size: int, pools_per_image: int) -> NDArray[np.int64] | None:
    """The projective plane over a field, the affine plane or its dual, if these are their numbers.

    With lines as pools, any two points of the projective plane of order q are on exactly one line:
    n = m = q² + q + 1, r = c = q + 1. Without one line and its points it is the affine plane, n = q²,
    r = q, c = q + 1; lines and points trade roles in the dual, n = q² + q, r = q + 1, c = q.

    Returns:
        The pools, or None if these are the numbers of no such plane.  # (m, r)
    """
    order = max(pool_size, pools_per_image) - 1
    if order > _LARGEST_FIELD or prime_power(order) is None:
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
