"""Confusion matrices: how pools of every true count are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.calibration.scaling import whole_numbers
from poolsieve.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def confusion_counts(true: ArrayLike, read: ArrayLike, pool_size: int) -> NDArray[np.int64]:
    """How many pools with each true count (rows) got each reading (columns).  # (r + 1, r + 1)."""
    rows, columns = whole_numbers(true, pool_size, "true counts"), whole_numbers(read, pool_size, "readings")
    if rows.shape != columns.shape:
        raise ValueError(f"{rows.size} true counts, but {columns.size} readings")
    table = np.zeros((pool_size + 1, pool_size + 1), dtype=np.int64)
    np.add.at(table, (rows.ravel(), columns.ravel()), 1)
    return table


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
