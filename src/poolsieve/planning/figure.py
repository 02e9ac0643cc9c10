"""The frontier of cost and sensitivity as a figure."""

from __future__ import annotations

import os
from pathlib import Path

from poolsieve.figures import new_figure, save_figure
from poolsieve.line_styles import styles_of
from poolsieve.planning.search import Choices


def draw_frontier(choices: Choices, path: str | os.PathLike[str]) -> Path:
    """Draw the best sensitivity at each cost, a line for each scheme, and the chosen plan.

    Args:
        choices: What a search found.
        path: `.png`, `.pdf` or `.svg`.
    """
    figure = new_figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    styles = styles_of(choices.frontier)
    for scheme, (costs, shares) in choices.frontier.items():
        style = styles[scheme].settings(4)
        axes.plot(costs, shares, drawstyle="steps-post", linewidth=1.2, label=scheme, **style)
    best = choices.best
    axes.errorbar(
        best.cost.value,
        best.sensitivity.value,
        yerr=[
            [best.sensitivity.value - best.sensitivity.low],
            [best.sensitivity.high - best.sensitivity.value],
        ],
        fmt="*",
        color="black",
        markersize=11,
        label="chosen",
    )
    axes.axhline(choices.least_sensitivity, color="0.6", linewidth=0.8, linestyle="--")
    top = max(1.0, choices.individual.sensitivity.high)
    axes.set_ylim(max(0.0, choices.least_sensitivity - 0.2), top)
    axes.set_xlim(0, 1.05)
    axes.set_xlabel("cost, as a share of individual testing")
    axes.set_ylabel(f"sensitivity at specificity ≥ {choices.least_specificity:.4f}")
    axes.set_title(f"prevalence {best.prevalence:g}", fontsize=10)
    axes.legend(loc="lower right")
    return save_figure(figure, path)
