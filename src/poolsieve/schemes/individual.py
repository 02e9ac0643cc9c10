"""Every image tested on its own: what all other schemes are measured by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.schemes.base import Decision, Scheme, register_scheme
from poolsieve.schemes.runner import Chunk


@register_scheme("individual")
@dataclass(frozen=True)
class Individual(Scheme):
    """The individual network on every image (INN of the paper). Cost: 1."""

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Test every image."""
        return self._test_all(chunk)
