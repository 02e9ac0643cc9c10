"""Sensitivity against false alarms."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from poolsieve.figures import new_figure, save_figure
from poolsieve.line_styles import colour_of
from poolsieve.statistics import auc


@dataclass(frozen=True)
class RocCurve:
    """Sensitivity against false alarms over all thresholds.

    Attributes:
        false_positive_rate: Ascending from 0 to 1.
        true_positive_rate: Ascending from 0 to 1.
        auc: Area under the whole curve, even if the points are thinned.
    """

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    auc: float


def roc_curve(scores: ArrayLike, bad: ArrayLike, *, points: int = 200) -> RocCurve:
    """ROC curve of scores, higher = worse; equal scores are one step, thinned to at most `points` points."""
    values, flags = np.asarray(scores, dtype=np.float64), np.asarray(bad) != 0
    if values.ndim != 1 or values.shape != flags.shape:
        raise ValueError(f"one score and one label per image; got {values.shape} and {flags.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    positives, negatives = int(flags.sum()), int((~flags).sum())
    if not positives or not negatives:
        raise ValueError(f"a ROC curve needs bad and clean images; got {positives} and {negatives}")
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # last of equal scores
    hits = np.concatenate([[0], np.cumsum(flags[order])[ends]])
    alarms = np.concatenate([[0], ends + 1]) - hits
    chosen = np.unique(np.linspace(0, len(hits) - 1, min(points, len(hits))).round().astype(int))
    return RocCurve(
        tuple((alarms[chosen] / negatives).tolist()),
        tuple((hits[chosen] / positives).tolist()),
        auc(values, flags),
    )


def draw_roc(curves: Mapping[str, RocCurve], path: str | os.PathLike[str]) -> Path:
    """Draw ROC curves by the names to show, with their areas, to a `.png`, `.pdf` or `.svg`."""
    figure = new_figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        label = f"{name} (area {curve.auc:.4f})"
        axes.plot(curve.false_positive_rate, curve.true_positive_rate, label=label, color=colour_of(name))
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle="--")
    axes.set_xlabel("clean images flagged")
    axes.set_ylabel("bad images flagged")
    axes.set_aspect("equal")
    axes.legend(loc="lower right")
    return save_figure(figure, path)
