"""Memory that an engine uses again: new pages cost the front up to a tenth of its time."""

from __future__ import annotations

import math
import sys
from collections import deque

import numpy as np

_LEAST = 1 << 20
"""Bytes from which memory is used again; the system gives smaller blocks from what it has at hand."""
_KEPT = 3
"""Blocks that are kept: one that is written, one that is still read, one not let go of yet."""


class Buffers:
    """Gives arrays, and gives their memory again once nobody holds them.

    Arrays of a chunk are as large as those of the chunk before. Fresh memory comes page by page when it is
    first written, which the system must clear and map. A block is free when no array is left that looks into
    it, slices included, so nothing that somebody still holds is ever written over. One thread may ask it at a
    time, as that of an engine's lock; whichever threads hold what it gave.
    """

    def __init__(self) -> None:
        self._blocks: deque[np.ndarray] = deque(maxlen=_KEPT)  # what is let go goes when its arrays do

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """An array, not filled."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _LEAST:
            return np.empty(shape, dtype=dtype)
        block = self._free(size)
        if block is None:
            block = np.empty(size, dtype=np.uint8)
            self._blocks.append(block)
        return block[:size].view(dtype).reshape(shape)

    def _free(self, size: int) -> np.ndarray | None:
        """A block that nobody holds and that fits; all others that nobody holds are let go.

        Chunks of several sizes would otherwise leave a block of each.
        """
        found = None
        for k in reversed(range(len(self._blocks))):
            # Held by the deque and by the argument of getrefcount; an array that looks into it adds one.
            if sys.getrefcount(self._blocks[k]) > 2:
                continue
            if found is None and size <= self._blocks[k].nbytes <= 2 * size:
                found = self._blocks[k]
            else:
                del self._blocks[k]
        return found
