"""The cheap head on every image, the individual back where it is uncertain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poolsieve.schemes.base import BY_HEAD, Decision, register_scheme
from poolsieve.schemes.looking import LookingScheme
from poolsieve.schemes.runner import Chunk


@register_scheme("cascade")
@dataclass(frozen=True)
class Cascade(LookingScheme):
    """Every image has a front, whose features the cheap head judges and an individual test goes on from."""

    def decide(self, chunk: Chunk, rng: np.random.Generator) -> Decision:
        """Look with the head, test what is left."""
        return self._decide_after(chunk, chunk.head_evidence(), BY_HEAD)
