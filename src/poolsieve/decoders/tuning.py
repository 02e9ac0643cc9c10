"""Grid search for a decoder's parameters on known truth (paper, "Hyperparameter Selection")."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.decoders.decoder import Decoder
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


@dataclass(frozen=True)
class TuningPoint:
    """One choice of parameters and what it gave."""

    parameters: dict[str, Any]
    sensitivity: float
    specificity: float

    @property
    def product(self) -> float:
        """Sensitivity × specificity, what the paper maximises."""
        return self.sensitivity * self.specificity


@dataclass(frozen=True)
class Tuned:
    """A decoder with the parameters that were found best.

    Attributes:
        decoder: The tuned decoder.
        best: What it gave on the tuning data.
        curve: Every point of the grid, in grid order.
        target_met: False if a floor was asked for that no point of the grid reaches.
    """

    decoder: Decoder
    best: TuningPoint
    curve: tuple[TuningPoint, ...]
    target_met: bool


def tune(
    decoder: Decoder,
    readings: Readings | ArrayLike,
    truth: ArrayLike,
    grid: Mapping[str, Sequence[Any]] | None = None,
    *,
    design: Pooling,
    priors: ArrayLike | None = None,
    min_sensitivity: float | None = None,
    min_specificity: float | None = None,
) -> Tuned:
    """Find the parameters that maximise sensitivity × specificity, as in the paper.

    With a floor, the other measure is maximised among the points that reach it; if none does, the point
    that comes nearest is returned with `target_met` False. The first point of several equally good wins.

    Args:
        decoder: The decoder whose parameters outside the grid are kept.
        readings: Readings of chunks with known truth, best at the prevalence that is to be met.
        truth: Which images are bad.  # (chunks, n)
        grid: Values to try for each parameter; by default the decoder's own `grid`.
        design: Which images share which pool.
        priors: As in `Decoder.decode`.
        min_sensitivity: Floor on sensitivity, to maximise specificity.
        min_specificity: Floor on specificity, to maximise sensitivity.
    """
    if min_sensitivity is not None and min_specificity is not None:
        raise ValueError("give a floor on sensitivity or on specificity, not on both")
    for name, floor in (("min_sensitivity", min_sensitivity), ("min_specificity", min_specificity)):
        if floor is not None and not 0 <= floor <= 1:
            raise ValueError(f"{name}={floor!r}, but it must lie between 0 and 1")
    readings = Readings.coerce(readings)
    bad = _check_truth(truth, readings.chunks, design.images)
    choices = {
        name: tuple(values) for name, values in (decoder.grid(design) if grid is None else grid).items()
    }
    empty = [name for name, values in choices.items() if not values]
    if empty:
        raise ValueError(f"the grid has no values for {empty[0]!r}")

    curve: list[TuningPoint] = []
    scanned = "threshold" if decoder.thresholds_scores and "threshold" in choices else None
    outer = {name: values for name, values in choices.items() if name != scanned}
    for values in itertools.product(*outer.values()):
        candidate = decoder.replace(**dict(zip(outer, values, strict=True)))
        decoding = candidate.decode(readings, design, priors)
        if scanned is None:
            curve.append(_point(dict(zip(outer, values, strict=True)), decoding.flags, bad))
            continue
        for threshold in choices[scanned]:
            candidate.replace(threshold=threshold)  # checks the value
            parameters = {**dict(zip(outer, values, strict=True)), scanned: threshold}
            curve.append(_point(parameters, decoding.scores > threshold, bad))

    best, met = _select(curve, min_sensitivity, min_specificity)
    return Tuned(decoder.replace(**best.parameters), best, tuple(curve), met)


def _select(
    curve: Sequence[TuningPoint], min_sensitivity: float | None, min_specificity: float | None
) -> tuple[TuningPoint, bool]:
    if min_sensitivity is None and min_specificity is None:
        return max(curve, key=lambda point: point.product), True
    if min_sensitivity is not None:
        held, free, floor = "sensitivity", "specificity", min_sensitivity
    else:
        assert min_specificity is not None
        held, free, floor = "specificity", "sensitivity", min_specificity
    reached = [point for point in curve if getattr(point, held) >= floor]
    if reached:
        return max(reached, key=lambda point: (getattr(point, free), getattr(point, held))), True
    return max(curve, key=lambda point: (getattr(point, held), getattr(point, free))), False


def _point(parameters: dict[str, Any], flags: NDArray[np.bool_], bad: NDArray[np.bool_]) -> TuningPoint:
    sensitivity = float((flags & bad).sum() / bad.sum())
    specificity = float((~flags & ~bad).sum() / (~bad).sum())
    return TuningPoint(parameters, sensitivity, specificity)


def _check_truth(truth: ArrayLike, chunks: int, images: int) -> NDArray[np.bool_]:
    table = np.asarray(truth)
    if table.ndim == 1:
        table = table[None]
    if table.shape != (chunks, images):
        raise ValueError(f"truth must have shape ({chunks}, {images}), not {table.shape}")
    if not np.isin(table, (0, 1)).all():
        raise ValueError("truth holds only 0 and 1 (or False and True)")
    bad: NDArray[np.bool_] = table != 0
    if not bad.any():
        raise ValueError(
            "no image in `truth` is bad, so sensitivity is undefined: add chunks with bad images"
        )
    if bad.all():
        raise ValueError("every image in `truth` is bad, so specificity is undefined")
    return bad
