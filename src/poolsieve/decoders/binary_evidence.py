"""What binary readings say of each image; shared by the decoders of binary group testing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


def positive_pools_of(readings: Readings, design: Pooling) -> NDArray[np.int64]:
    """Number of positive pools that each image is in.  # (chunks, n)."""
    return (readings.counts > 0).astype(np.int64) @ design.sparse


def possibly_bad(readings: Readings, design: Pooling) -> NDArray[np.bool_]:
    """Images that are in no negative pool, the only ones that can be bad without noise.  # (chunks, n)."""
    possible: NDArray[np.bool_] = positive_pools_of(readings, design) == design.image_weights
    return possible
