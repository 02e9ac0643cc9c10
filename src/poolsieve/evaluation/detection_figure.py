"""The figure of sensitivity and specificity against prevalence, with broken axes as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from poolsieve.evaluation.simulate import SimulationRow
from poolsieve.figures import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP*X"
CLOSE_UP = 0.95
"""Values from here up get the larger, upper part of a broken axis."""


def plot_detection(rows: Sequence[SimulationRow]) -> Figure:
    """Sensitivity and specificity of every method against prevalence, with 95% intervals."""
    names = list(dict.fromkeys(_label(row, rows) for row in rows))
    figure = new_figure(figsize=(11, 5.6))
    grid = figure.subplots(
        2,
        2,
        sharex=True,
        gridspec_kw={"height_ratios": [3, 1], "hspace": 0.06, "wspace": 0.18},
    )
    for column, measure in enumerate(("sensitivity", "specificity")):
        lowest = 1.0
        for number, name in enumerate(names):
            chosen = sorted(
                (row for row in rows if _label(row, rows) == name), key=lambda row: row.prevalence
            )
            points = [(row.prevalence, getattr(row.detection, measure)) for row in chosen]
            points = [(prevalence, share) for prevalence, share in points if share.total]
            if not points:
                continue
            dodge = 1 + 0.02 * (number - (len(names) - 1) / 2)  # so that intervals do not hide each other
            x = np.array([prevalence for prevalence, _ in points]) * dodge
            y = np.array([share.value for _, share in points])
            error = np.array([[s.value - s.low for _, s in points], [s.high - s.value for _, s in points]])
            lowest = min(lowest, float(y.min()))
            for axes in grid[:, column]:
                axes.errorbar(
                    x,
                    y,
                    yerr=error,
                    label=name,
                    color=COLOURS[number % len(COLOURS)],
                    marker=MARKERS[number % len(MARKERS)],
                    linestyle="-" if number < len(COLOURS) else "--",
                    markersize=5,
                    linewidth=1.2,
                    elinewidth=0.8,
                    capsize=2,
                )
        _break_axis(grid[0, column], grid[1, column], lowest)
        grid[0, column].set_title(measure.capitalize())
        grid[1, column].set_xlabel("prevalence p (share of bad images)")
        grid[0, column].set_ylabel(measure)
    _label_prevalences(grid[1, 0], [row.prevalence for row in rows])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    if not handles:
        handles, labels = grid[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(len(labels), 8), frameon=False)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.93, bottom=0.24)
    return figure


def _label(row: SimulationRow, rows: Sequence[SimulationRow]) -> str:
    """The method, and what else tells this row's line from the others."""
    label = row.method
    if len({other.design for other in rows if other.method == row.method}) > 1:
        label += f" {row.design}"
    if len({other.noise for other in rows}) > 1:
        label += f", noise {row.noise}"
    return label


def _break_axis(upper: Axes, lower: Axes, lowest: float) -> None:
    """Show [CLOSE_UP, 1] large and everything below it small, with marks where the axis is cut."""
    upper.set_ylim(CLOSE_UP, 1.002)
    lower.set_ylim(min(lowest, CLOSE_UP - 0.05) - 0.04, CLOSE_UP)
    upper.spines["bottom"].set_visible(False)
    lower.spines["top"].set_visible(False)
    upper.tick_params(bottom=False, which="both")
    slash: dict[str, Any] = {
        "marker": [(-1, -0.6), (1, 0.6)],
        "markersize": 7,
        "linestyle": "none",
        "color": "k",
        "mec": "k",
        "mew": 1,
        "clip_on": False,
    }
    upper.plot([0, 1], [0, 0], transform=upper.transAxes, **slash)
    lower.plot([0, 1], [1, 1], transform=lower.transAxes, **slash)
    for axes in (upper, lower):
        axes.grid(alpha=0.25)
    lower.set_yticks([tick for tick in lower.get_yticks() if lower.get_ylim()[0] <= tick < CLOSE_UP - 1e-9])


def _label_prevalences(axes: Axes, prevalences: Sequence[float]) -> None:
    """A logarithmic axis with the prevalences themselves as ticks, as many as fit."""
    positive = sorted({p for p in prevalences if p > 0})
    if len(positive) < 2 or 0 in prevalences:
        return
    axes.set_xscale("log")
    ticks: list[float] = []
    for prevalence in reversed(positive):
        if not ticks or np.log10(ticks[-1] / prevalence) > 0.15:
            ticks.append(prevalence)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
