"""The figures of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from poolsieve.evaluation.detection_figure import DetectionPoint, label_prevalences, plot_points
from poolsieve.evaluation.results import Evaluation, EvaluationRow, FrontierPoint, Saving, TwoObjects
from poolsieve.figures import COLOURS, new_figure
from poolsieve.line_styles import styles_of
from poolsieve.schemes.scheme import SCHEMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1A1A1A"
NOTHING = "#D9D9D9"
"""Colour where no method is shown."""
FIGURE_GROUPS = {
    "The paper's methods": ("individual", "dorfman", "comp", "ncomp-2", "classo", "mip"),
    "Bayes, first looks and adaptive": (
        "individual",
        "mip",
        "bp-hard",
        "bp",
        "glance",
        "cascade",
        "adaptive",
        "auto",
    ),
    "Half resolution": (
        "individual",
        "mip",
        "downsample",
        "downsample-comp",
        "downsample-ncomp-2",
        "downsample-classo",
        "downsample-mip",
        "downsample-bp",
    ),
}
"""Methods that are shown together, so that no figure has more lines than can be told apart; other schemes
of the table have one of their own."""


def plot_savings(savings: Sequence[Saving], *, bad: str = "bad") -> Figure:
    """One bar for the best method at each prevalence, against testing every image."""
    figure = new_figure(figsize=(6, max(0.5 * len(savings) + 1.5, 3.0)), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(savings))
    costs = [saving.best.cost if saving.best else 1.0 for saving in savings]
    styles = styles_of(saving.best.method for saving in savings if saving.best)
    colours = [styles[saving.best.method].colour if saving.best else NOTHING for saving in savings]
    axes.barh(places, costs, color=colours, height=0.7)
    for place, cost, saving, colour in zip(places, costs, savings, colours, strict=True):
        text = f"{cost:.0%}  {saving.best.title}" if saving.best else "no method detects as well for less"
        inside = cost > 0.5
        axes.text(
            cost - 0.015 if inside else cost + 0.015,
            float(place),
            text,
            ha="right" if inside else "left",
            va="center",
            color="white" if inside and _dark(colour) else INK,
            fontsize=12,
        )
    axes.axvline(1.0, color=INK, linestyle="--", linewidth=1)
    axes.text(0.985, -0.62, "testing every image", ha="right", va="center", color=INK, fontsize=11)
    axes.set_yticks(places, [percent(saving.prevalence) for saving in savings], fontsize=12)
    axes.set_ylim(len(savings) - 0.5, -0.95)
    axes.set_xlim(0, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"], fontsize=11)
    axes.set_xlabel("computation (testing every image = 100%)", fontsize=12)
    axes.set_ylabel(f"share of {bad} images", fontsize=12)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def percent(share: float) -> str:
    """A share as people write it: 0.1%, 5%."""
    return f"{100 * share:g}%"


def detection_figures(evaluation: Evaluation) -> dict[str, Figure]:
    """What the methods of each group find, by the group's title; groups that were not tried are left out."""
    grouped = {name for methods in FIGURE_GROUPS.values() for name in methods}
    others = [name for name in SCHEMES if name not in grouped]
    shown = FIGURE_GROUPS | {"Other schemes": ("individual", "mip", *others)}
    groups = {title: rows_of(evaluation, methods) for title, methods in shown.items()}
    return {
        title: plot_detection_of(rows, bad=evaluation.wording.bad)
        for title, rows in groups.items()
        if {row.method for row in rows} - {"individual", "mip"}
    }


def plot_detection_of(rows: Sequence[EvaluationRow], *, bad: str = "bad") -> Figure:
    """Sensitivity and specificity against prevalence, on broken axes."""
    points = [
        DetectionPoint(
            row.title, row.method, row.prevalence, row.detection.sensitivity, row.detection.specificity
        )
        for row in rows
    ]
    return plot_points(points, close_up=0.9, bad=bad)


def plot_cost(rows: Sequence[EvaluationRow], *, bad: str = "bad") -> Figure:
    """Cost against prevalence; methods that cost the same at every prevalence share a line."""
    figure = new_figure(figsize=(8, 5.2))
    axes = figure.add_subplot()
    lines: dict[tuple[tuple[float, float], ...], list[str]] = {}
    titles = {row.method: row.title for row in rows}
    for method in titles:
        own = sorted((row.prevalence, round(row.cost, 6)) for row in rows if row.method == method)
        lines.setdefault(tuple(own), []).append(method)
    styles = styles_of(titles)
    for points, methods in lines.items():
        x, y = zip(*points, strict=True)
        label = ", ".join(titles[method] for method in methods[:3]) + (" …" if len(methods) > 3 else "")
        axes.plot(x, y, label=label, linewidth=1.3, **styles[methods[0]].settings())
    label_prevalences(axes, [row.prevalence for row in rows])
    axes.set_xlabel(f"prevalence p (share of {bad} images)")
    axes.set_ylabel("cost (1 = testing every image)")
    axes.set_ylim(0, max(1.05, 1.05 * max(row.cost for row in rows)))
    axes.grid(alpha=0.25)
    figure.legend(loc="lower center", ncols=2, frameon=False)
    figure.subplots_adjust(left=0.1, right=0.98, top=0.97, bottom=0.16 + 0.05 * (-(-len(lines) // 2)))
    return figure


def plot_frontier(points: Sequence[FrontierPoint]) -> Figure:
    """Cost against sensitivity at the specificity of individual testing, a panel for each prevalence."""
    prevalences = sorted({point.prevalence for point in points})
    titles = {point.method: point.title for point in points}
    styles = styles_of(titles)
    figure = new_figure(figsize=(3.9 * len(prevalences) + 0.6, 5.6))
    panels = figure.subplots(1, len(prevalences), squeeze=False, sharey=True)[0]
    lowest = min(point.sensitivity.value for point in points)
    for axes, prevalence in zip(panels, prevalences, strict=True):
        here = [point for point in points if point.prevalence == prevalence]
        for method, title in titles.items():
            own = sorted((point for point in here if point.method == method), key=lambda point: point.cost)
            style = styles[method].settings(7)
            if len(own) > 1:
                axes.plot(
                    [point.cost for point in own],
                    [point.sensitivity.value for point in own],
                    linewidth=1.3,
                    alpha=0.7,
                    **{**style, "marker": ".", "markersize": 3},
                )
            for point in own:
                if point.chosen:
                    error = [
                        [max(point.sensitivity.value - point.sensitivity.low, 0)],
                        [max(point.sensitivity.high - point.sensitivity.value, 0)],
                    ]
                    axes.errorbar(
                        point.cost,
                        point.sensitivity.value,
                        yerr=error,
                        label=title,
                        elinewidth=0.7,
                        capsize=2,
                        **{**style, "linestyle": "none"},
                    )
        axes.set_title(f"p = {prevalence:g}, specificity {here[0].specificity:.3f}", fontsize=10)
        axes.set_xlabel("cost (1 = testing every image)")
        axes.set_xlim(0, 1.08)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("sensitivity")
    panels[0].set_ylim(max(0.0, lowest - 0.06), 1.02)
    handles, labels = panels[0].get_legend_handles_labels()
    columns = max(2, 2 * len(prevalences))
    rows = -(-len(labels) // columns)
    figure.legend(handles, labels, loc="lower center", ncols=columns, frameon=False, fontsize=9)
    figure.subplots_adjust(
        left=0.3 / len(prevalences) ** 1.3 + 0.01,
        right=0.985,
        top=0.93,
        bottom=0.12 + 0.05 * rows,
        wspace=0.08,
    )
    return figure


def plot_two_objects(found: TwoObjects) -> Figure:
    """What was read of pools with one bad image that shows one or two objects."""
    figure = new_figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    most = max(k for k, pools in enumerate(np.add(found.double, found.single)) if pools)
    places = np.arange(most + 1)
    for shift, pools, name, colour in (
        (-0.2, found.single, "one object", COLOURS[0]),
        (0.2, found.double, "two objects", COLOURS[1]),
    ):
        bars = axes.bar(places + shift, pools[: most + 1], width=0.4, label=name, color=colour)
        axes.bar_label(bars, fontsize=9)
    axes.set_xticks(places)
    axes.set_xlabel("bad images read in a pool that holds one")
    axes.set_ylabel("pools")
    axes.margins(y=0.1)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def rows_of(evaluation: Evaluation, methods: Sequence[str]) -> list[EvaluationRow]:
    """Rows of some methods."""
    return [row for row in evaluation.rows if row.method in methods]


def _dark(colour: str) -> bool:
    """Whether white letters are read better on a colour than black ones (luminance as in WCAG 2)."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear)) < 0.179
