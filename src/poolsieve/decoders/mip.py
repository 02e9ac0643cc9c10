"""MIP: the Lasso objective over binary x, solved exactly (paper, section "CS/GT Decoding Algorithms")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.base import Choice, Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.readings import Readings
from poolsieve.decoders.solvers import SOLVERS, pick_solver
from poolsieve.designs import Pooling


@register_decoder("mip")
@dataclass(frozen=True)
class MIP(Decoder):
    """Minimise ‖y − Φx‖² + λ‖x‖₁ over x ∈ {0, 1}ⁿ, exactly.

    The score is x. Ties are broken deterministically: each solver keeps the first best solution in its
    search order, which depends on the chunk's own readings only. Different solvers may keep different ones.

    Attributes:
        penalty: λ.
        solver: "native" (our branch and bound), "highs", "gurobi", or "auto" for the best that is installed.
        node_limit: Search nodes allowed for each chunk; where it is hit, `Decoding.solved` is False and the
            best solution found so far is returned. None for no limit.
    """

    penalty: float = parameter(0.5, Interval(low=0))
    solver: str = parameter("auto", Choice(("auto", *SOLVERS)))
    node_limit: int | None = parameter(None, Interval(low=1, whole=True, optional=True))

    default_grid: ClassVar = {"penalty": (0.01, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)}

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        x, objective, solved = pick_solver(self.solver)(
            readings.counts, self.penalty, design, self.node_limit
        )
        return Decoding(x.astype(np.float64), x, solved, objective)
