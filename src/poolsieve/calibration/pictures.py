"""Pictures of a calibration: the confusion matrix of counts, and ROC curves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poolsieve.calibration.roc import RocCurve
from poolsieve.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_confusion(confusion: Sequence[Sequence[int]], path: str | os.PathLike[str]) -> Path:
    """Draw a confusion matrix of counts to a `.png`, `.pdf` or `.svg`; see `plot_confusion`."""
    return save_figure(plot_confusion(confusion), path)


def plot_confusion(confusion: Sequence[Sequence[int]], *, bad: str = "bad") -> Figure:
    """A confusion matrix of counts as in the paper's figure (fig:confusion_matrix).

    Rows are true counts, columns readings; the colour is the share of the row, the number the pools.

    Args:
        confusion: Numbers of pools.  # (r + 1, r + 1)
        bad: What the images that are counted are called.
    """
    table = np.asarray(confusion)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    inches = 0.55 * len(table) + 1.5
    figure = new_figure(figsize=(inches, inches), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for (row, column), pools in np.ndenumerate(table):
        if pools:
            colour = "white" if share[row, column] > 0.6 else "black"
            axes.text(column, row, f"{pools}", ha="center", va="center", color=colour, fontsize=10)
    axes.set_xticks(range(len(table)))
    axes.set_yticks(range(len(table)))
    axes.set_xlabel(f"{bad} images read")
    axes.set_ylabel(f"{bad} images in the pool")
    return figure


def draw_roc(curves: Mapping[str, RocCurve], path: str | os.PathLike[str]) -> Path:
    """Draw ROC curves, one for each name, with their areas.

    Args:
        curves: Curves by the name to show.
        path: `.png`, `.pdf` or `.svg`.
    """
    figure = new_figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot(curve.false_positive_rate, curve.true_positive_rate, label=f"{name} (area {curve.auc:.4f})")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle="--")
    axes.set_xlabel("clean images flagged")
    axes.set_ylabel("bad images flagged")
    axes.set_aspect("equal")
    axes.legend(loc="lower right")
    return save_figure(figure, path)
