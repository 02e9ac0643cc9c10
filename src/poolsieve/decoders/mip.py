"""MIP: the Lasso objective over binary x, solved exactly (paper, section "CS/GT Decoding Algorithms").

The solvers in order of preference, and the presolve that the outside ones share.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.decoder import Choice, Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.kernels.branch_and_bound import least_squares
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling

Solution = tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]
"""x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,)."""
Solver = Callable[[NDArray[np.int64], float, Pooling, int | None], Solution]


def solve_native(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """Our branch and bound."""
    step = objective_step(penalty, design)
    x, objective, proven = least_squares(counts, float(penalty), design, step, node_limit)
    return x, objective, proven


def objective_step(penalty: float, design: Pooling) -> float:
    """The largest number that divides every difference of two objective values; 0 if λ is no simple fraction.

    Flagging an image in w pools changes each of w squares by an odd number and the penalty by λ, so all
    differences are sums of 2 and of λ + w.
    """
    fraction = Fraction(float(penalty)).limit_denominator(1000)
    if abs(float(fraction) - penalty) > 1e-12:
        return 0.0
    parts = [fraction + int(weight) for weight in np.unique(design.image_weights)]
    denominator = fraction.denominator
    return math.gcd(2 * denominator, *(int(part * denominator) for part in parts)) / denominator


def cannot_be_bad(counts: NDArray[np.int64], penalty: float, design: Pooling) -> NDArray[np.bool_]:
    """Images that some best solution leaves at 0: those with λ + Σ(1 − 2·y_q) ≥ 0 over their pools.

    Clearing such an image changes the objective by Σ(2e_q + 1) − λ, where each residual e_q is at most
    y_q − 1 while the image is flagged, and that is not above 0.  # (chunks, n)
    """
    cannot: NDArray[np.bool_] = penalty + (1 - 2 * counts) @ design.sparse >= 0
    return cannot


@dataclass(frozen=True)
class _Reduced:
    """What is left of one chunk after presolve."""

    matrix: NDArray[np.int64]  # (pools, images)
    reading: NDArray[np.int64]  # (pools,)


Answer = tuple[NDArray[np.bool_] | None, bool]
"""Which of the undecided images are bad (None if no solution was found), and whether that is proven best."""


def _solve_each(
    counts: NDArray[np.int64], penalty: float, design: Pooling, solve: Callable[[_Reduced], Answer]
) -> Solution:
    """Chunk by chunk, with the images that presolve leaves; all are clear where no solution was found."""
    x = np.zeros((len(counts), design.images), dtype=bool)
    proven = np.ones(len(counts), dtype=bool)
    undecided = ~cannot_be_bad(counts, penalty, design)
    for chunk in np.flatnonzero(undecided.any(axis=1)):
        images = np.flatnonzero(undecided[chunk])
        pools = np.unique(design.pools_of[images])
        pools = pools[pools >= 0]
        matrix = design.sparse[pools][:, images].toarray().astype(np.int64)
        bad, proven[chunk] = solve(_Reduced(matrix, counts[chunk, pools]))
        if bad is not None:
            x[chunk, images] = bad
    return x, objective_of(x, counts, penalty, design), proven


def solve_highs(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """HiGHS, which has no quadratic integer programs: on whole numbers e² = max_k (2k + 1)e − k(k + 1).

    Every pool gets a variable for its squared residual, bounded below by these lines, so the problem is a
    linear one whose right-hand side alone depends on the readings.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import

    def solve(part: _Reduced) -> Answer:
        pools, images = part.matrix.shape
        sizes = part.matrix.sum(axis=1)
        # For pool q the lines k = y − size .. y − 1 are exact on all residuals it can have.
        pool = np.repeat(np.arange(pools), sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        k = np.arange(len(pool)) - first + (part.reading - sizes)[pool]
        slope = 2 * k + 1
        # slope·(Φx)_q + square_q ≥ slope·y_q − k(k + 1)
        lines = np.hstack([slope[:, None] * part.matrix[pool], np.eye(pools)[pool]])
        found = milp(
            np.repeat([penalty, 1.0], [images, pools]),
            integrality=np.repeat([1, 0], [images, pools]),
            bounds=Bounds(0, np.repeat([1, np.inf], [images, pools])),
            constraints=LinearConstraint(lines, lb=slope * part.reading[pool] - k * (k + 1)),
            options={"mip_rel_gap": 0.0, **({} if node_limit is None else {"node_limit": int(node_limit)})},
        )
        if not found.success and node_limit is None:
            raise RuntimeError(f"HiGHS stopped: {found.message}")
        return None if found.x is None else found.x[:images] > 0.5, found.success

    return _solve_each(counts, penalty, design, solve)


def solve_gurobi(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """Gurobi, the paper's solver, as a quadratic integer program."""
    import gurobipy

    settings = {"OutputFlag": 0, "Threads": 1, "MIPGap": 0.0, "MIPGapAbs": 1e-9}
    if node_limit is not None:
        settings["NodeLimit"] = node_limit
    with gurobipy.Env(params=settings) as environment:

        def solve(part: _Reduced) -> Answer:
            with gurobipy.Model(env=environment) as model:
                variables = model.addMVar(part.matrix.shape[1], vtype="B")
                residual = part.reading - part.matrix @ variables
                model.setObjective(residual @ residual + penalty * variables.sum())
                model.optimize()
                bad = variables.X > 0.5 if model.SolCount else None
                return bad, model.Status == gurobipy.GRB.OPTIMAL

        return _solve_each(counts, penalty, design, solve)


def objective_of(
    x: NDArray[np.bool_], counts: NDArray[np.int64], penalty: float, design: Pooling
) -> NDArray[np.float64]:
    """‖y − Φx‖² + λ‖x‖₁ of every chunk."""
    residual = counts - design.counts(x)
    return (residual**2).sum(axis=1) + penalty * x.sum(axis=1)


@dataclass(frozen=True)
class _Offer:
    solve: Solver
    module: str | None  # what must be installed
    extra: str | None  # how to install it

    @property
    def usable(self) -> bool:
        return self.module is None or importlib.util.find_spec(self.module) is not None


SOLVERS: dict[str, _Offer] = {  # in order of preference
    "native": _Offer(solve_native, None, None),
    "highs": _Offer(solve_highs, None, None),  # comes with scipy
    "gurobi": _Offer(solve_gurobi, "gurobipy", "poolsieve[gurobi]"),
}


def pick_solver(name: str) -> Solver:
    """The named solver, or for "auto" the first that is installed.

    Raises:
        ImportError: The named solver is not installed; the message says how to install it.
    """
    if name == "auto":
        name = next(choice for choice, offer in SOLVERS.items() if offer.usable)
    offer = SOLVERS[name]
    if not offer.usable:
        raise ImportError(f"solver {name!r} needs {offer.module}: pip install '{offer.extra}'")
    return offer.solve


def installed_solvers() -> list[str]:
    """Solvers that can be used here, best first."""
    return [name for name, offer in SOLVERS.items() if offer.usable]


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

    reads_counts: ClassVar = True
    # Squared errors are whole numbers: below 1/n a penalty only breaks ties, so that 0.01 is as good as any
    # less for 100 images; from c on no image is worth its penalty by itself.
    default_grid: ClassVar = {"penalty": (0.01, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)}

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        x, objective, solved = pick_solver(self.solver)(
            readings.counts, self.penalty, design, self.node_limit
        )
        return Decoding(x.astype(np.float64), x, solved, objective)
