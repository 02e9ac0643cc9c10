"""A glance at every image at a fraction of its size, the whole network where that does not clear it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.schemes.base import BY_GLANCE, Decision, register_scheme
from poolsieve.schemes.looking import LookingScheme
from poolsieve.schemes.runner import Chunk


@register_scheme("glance")
@dataclass(frozen=True)
class Glance(LookingScheme):
    """A small network looks at shrunken images; front and back run on those that it leaves alone."""

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Glance, test what is left."""
        return self._decide_after(chunk, chunk.glance_evidence(), BY_GLANCE)
