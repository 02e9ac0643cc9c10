"""The figure of sensitivity and specificity against prevalence, with broken axes as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from poolsieve.evaluation.simulate import SimulationRow
from poolsieve.figures import new_figure
from poolsieve.line_styles import styles_of
from poolsieve.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLOSE_UP = 0.95
"""Values from here up get the larger, upper part of a broken axis."""


@dataclass(frozen=True)
class DetectionPoint:
    """One method at one prevalence.

    Attributes:
        line: Name of the method's line.
        method: The method, by which the line looks; see `poolsieve.line_styles`.
        prevalence: Share of bad images.
        sensitivity: With its interval.
        specificity: With its interval.
    """

    line: str
    method: str
    prevalence: float
    sensitivity: Estimate
    specificity: Estimate


def plot_detection(rows: Sequence[SimulationRow]) -> Figure:
    """Sensitivity and specificity of every simulated method against prevalence, with 95% intervals."""
    return plot_points(
        [
            DetectionPoint(label, label, row.prevalence, row.detection.sensitivity, row.detection.specificity)
            for row, label in ((row, _label(row, rows)) for row in rows)
        ]
    )


def plot_points(points: Sequence[DetectionPoint], *, close_up: float = CLOSE_UP, bad: str = "bad") -> Figure:
    """Sensitivity and specificity against prevalence, with 95% intervals.

    Args:
        points: In any order; lines come in the order in which they occur first.
        close_up: Values from here up get the larger, upper part of a broken axis.
        bad: What the images that are to be flagged are called.
    """
    names = {point.line: point.method for point in points}
    styles = styles_of(names.values())
    figure = new_figure(figsize=(11, 5.6))
    grid = figure.subplots(
        2, 2, sharex=True, gridspec_kw={"height_ratios": [3, 1], "hspace": 0.06, "wspace": 0.18}
    )
    for column, measure in enumerate(("sensitivity", "specificity")):
        lowest = 1.0
        for number, (name, method) in enumerate(names.items()):
            own = sorted(
                (point for point in points if point.line == name), key=lambda point: point.prevalence
            )
            shown = [(point.prevalence, getattr(point, measure)) for point in own]
            shown = [(prevalence, share) for prevalence, share in shown if share.defined]
            if not shown:
                continue
            dodge = 1 + 0.02 * (number - (len(names) - 1) / 2)  # so that intervals do not hide each other
            x = np.array([prevalence for prevalence, _ in shown]) * dodge
            y = np.array([share.value for _, share in shown])
            error = np.array([[s.value - s.low for _, s in shown], [s.high - s.value for _, s in shown]])
            lowest = min(lowest, float(y.min()))
            for axes in grid[:, column]:
                axes.errorbar(
                    x,
                    y,
                    yerr=error,
                    label=name,
                    linewidth=1.2,
                    elinewidth=0.8,
                    capsize=2,
                    **styles[method].settings(),
                )
        _break_axis(grid[0, column], grid[1, column], lowest, close_up)
        grid[0, column].set_title(measure.capitalize())
        grid[1, column].set_xlabel(f"prevalence p (share of {bad} images)")
        grid[0, column].set_ylabel(measure)
    label_prevalences(grid[1, 0], [point.prevalence for point in points])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    if not handles:
        handles, labels = grid[0, 1].get_legend_handles_labels()
    columns = min(max(len(labels), 1), 8)
    figure.legend(handles, labels, loc="lower center", ncols=columns, frameon=False)
    bottom = 0.13 + 0.05 * -(-len(labels) // columns)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.93, bottom=bottom)
    return figure


def _label(row: SimulationRow, rows: Sequence[SimulationRow]) -> str:
    """The method, and what else tells this row's line from the others."""
    label = row.method
    if len({other.design for other in rows if other.method == row.method}) > 1:
        label += f" {row.design}"
    if len({other.noise for other in rows}) > 1:
        label += f", noise {row.noise}"
    return label


def _break_axis(upper: Axes, lower: Axes, lowest: float, close_up: float) -> None:
    """Show [close_up, 1] large and everything below it small, with marks where the axis is cut."""
    upper.set_ylim(close_up, 1 + 0.04 * (1 - close_up))
    lower.set_ylim(min(lowest, close_up - 0.05) - 0.04, close_up)
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
    lower.set_yticks([tick for tick in lower.get_yticks() if lower.get_ylim()[0] <= tick < close_up - 1e-9])


def label_prevalences(axes: Axes, prevalences: Sequence[float]) -> None:
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
