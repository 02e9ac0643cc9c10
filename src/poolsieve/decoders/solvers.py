"""Exact solvers for MIP, in order of preference, and the presolve that the outside ones share."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.kernels.branch_and_bound import least_squares
from poolsieve.designs import Pooling

NO_LIMIT = 2**62

Solution = tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]]
"""x (chunks, n), the objective (chunks,), and whether it is proven least (chunks,)."""
Solver = Callable[[NDArray[np.int64], float, Pooling, int | None], Solution]


def solve_native(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """Our branch and bound."""
    x, objective, proven = least_squares(
        counts,
        float(penalty),
        design,
        objective_step(penalty, design),
        NO_LIMIT if node_limit is None else int(node_limit),
    )
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
    evidence = penalty + (1 - 2 * counts) @ design.sparse
    result: NDArray[np.bool_] = evidence >= 0
    return result


@dataclass(frozen=True)
class _Reduced:
    """What is left of one chunk after presolve."""

    images: NDArray[np.int64]  # (k,) numbers of the undecided images
    pools: NDArray[np.int32]  # (l,) numbers of their pools
    matrix: NDArray[np.int8]  # (l, k)


def _reduce(free: NDArray[np.bool_], design: Pooling) -> _Reduced:
    images = np.flatnonzero(free)
    pools = np.unique(design.pools_of[images])
    pools = pools[pools >= 0]
    return _Reduced(images, pools, design.sparse[pools][:, images].toarray().astype(np.int8))


def solve_highs(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """HiGHS, which has no quadratic integer programs: on whole numbers e² = max_k (2k + 1)e − k(k + 1).

    Every pool gets a variable for its squared residual, bounded below by these lines, so the problem is a
    linear one whose right-hand side alone depends on the readings.
    """
    import highspy

    x = np.zeros((len(counts), design.images), dtype=bool)
    proven = np.ones(len(counts), dtype=bool)
    decided = cannot_be_bad(counts, penalty, design)
    highs = highspy.Highs()
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 1e-9,
        **({} if node_limit is None else {"mip_max_nodes": int(node_limit)}),
    }.items():
        highs.setOptionValue(option, value)
    for chunk, reading in enumerate(counts):
        if decided[chunk].all():
            continue
        part = _reduce(~decided[chunk], design)
        highs.passModel(_squares_as_lines(highspy, part, reading[part.pools], penalty))
        highs.run()
        status = highs.getModelStatus()
        proven[chunk] = status == highspy.HighsModelStatus.kOptimal
        if not proven[chunk] and status != highspy.HighsModelStatus.kSolutionLimit:
            raise RuntimeError(
                f"HiGHS stopped with status {highs.modelStatusToString(status)} on chunk {chunk}"
            )
        values = np.array(highs.getSolution().col_value[: len(part.images)])
        if len(values) == len(part.images):  # else no solution was found within the node limit: all clear
            x[chunk, part.images] = values > 0.5
    return x, objective_of(x, counts, penalty, design), proven


def _squares_as_lines(highspy: Any, part: _Reduced, reading: NDArray[np.int64], penalty: float) -> Any:
    """The linear program over (x, squares): minimise λ·Σx + Σ squares."""
    pools, images = part.matrix.shape
    sizes = part.matrix.sum(axis=1).astype(np.int64)
    # For pool q the lines k = y − size .. y − 1 are exact on all residuals it can have.
    line_pool = np.repeat(np.arange(pools), sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    k = np.arange(len(line_pool)) - first + np.repeat(reading - sizes, sizes)
    slope = 2 * k + 1
    # square_q + slope·(Φx)_q ≥ slope·y_q − k(k + 1)
    lower = (slope * reading[line_pool] - k * (k + 1)).astype(np.float64)
    columns = [np.flatnonzero(row) for row in part.matrix]
    starts = np.concatenate([[0], np.cumsum(sizes[line_pool] + 1)])
    index = np.concatenate([np.append(columns[q], images + q) for q in line_pool])
    value = np.concatenate(
        [np.append(np.full(sizes[q], float(s)), 1.0) for q, s in zip(line_pool, slope, strict=True)]
    )
    infinity = highspy.kHighsInf
    model = highspy.HighsLp()
    model.num_col_ = images + pools
    model.num_row_ = len(line_pool)
    model.col_cost_ = np.concatenate([np.full(images, float(penalty)), np.ones(pools)])
    model.col_lower_ = np.zeros(images + pools)
    model.col_upper_ = np.concatenate([np.ones(images), np.full(pools, infinity)])
    model.row_lower_ = lower
    model.row_upper_ = np.full(len(line_pool), infinity)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = starts
    model.a_matrix_.index_ = index
    model.a_matrix_.value_ = value
    kinds = highspy.HighsVarType
    model.integrality_ = [kinds.kInteger] * images + [kinds.kContinuous] * pools
    return model


def solve_gurobi(
    counts: NDArray[np.int64], penalty: float, design: Pooling, node_limit: int | None
) -> Solution:
    """Gurobi, the paper's solver, as a quadratic integer program."""
    import gurobipy

    x = np.zeros((len(counts), design.images), dtype=bool)
    proven = np.ones(len(counts), dtype=bool)
    decided = cannot_be_bad(counts, penalty, design)
    with gurobipy.Env(
        params={"OutputFlag": 0, "Threads": 1, "MIPGap": 0.0, "MIPGapAbs": 1e-9}
    ) as environment:
        for chunk, reading in enumerate(counts):
            if decided[chunk].all():
                continue
            part = _reduce(~decided[chunk], design)
            with gurobipy.Model(env=environment) as model:
                if node_limit is not None:
                    model.Params.NodeLimit = node_limit
                variables = model.addMVar(len(part.images), vtype="B")
                residual = reading[part.pools] - part.matrix @ variables
                model.setObjective(residual @ residual + penalty * variables.sum())
                model.optimize()
                proven[chunk] = model.Status == gurobipy.GRB.OPTIMAL
                if model.SolCount:
                    x[chunk, part.images] = variables.X > 0.5
    return x, objective_of(x, counts, penalty, design), proven


def objective_of(
    x: NDArray[np.bool_], counts: NDArray[np.int64], penalty: float, design: Pooling
) -> NDArray[np.float64]:
    """‖y − Φx‖² + λ‖x‖₁ of every chunk."""
    residual = counts - design.counts(x)
    result: NDArray[np.float64] = (residual**2).sum(axis=1) + penalty * x.sum(axis=1)
    return result


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
    "highs": _Offer(solve_highs, "highspy", "poolsieve[highs]"),
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
