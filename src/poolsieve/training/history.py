"""The course of a training run: `history.csv` and its curves as a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve.figures import new_figure, save_figure
from poolsieve.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

History = Mapping[str, list[dict[str, float]]]
"""Records of each epoch by phase."""


SHOWN = ("accuracy", "score", "exact", "within_one", "auc_0_1", "head_auc")
"""Beginnings of the names of the validation figures in the picture."""


def write_history(folder: Path, history: History, *, curves: bool = True) -> None:
    """Write `history.csv` (one line per epoch) and, unless told not to, `curves.png`."""
    columns = ["phase"]
    for records in history.values():
        for record in records:
            columns += [name for name in record if name not in columns]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for phase, records in history.items():
        for record in records:
            writer.writerow({"phase": phase, **{name: f"{value:.6g}" for name, value in record.items()}})
    write_atomically(folder / "history.csv", text.getvalue().encode())
    if curves:
        save_figure(draw_curves(history), folder / "curves.png")


def draw_curves(history: History) -> Figure:
    """Training loss and validation figures of every phase over epochs."""
    figure = new_figure(figsize=(9, 3.2 * max(1, len(history))), layout="constrained")
    panels = figure.subplots(max(1, len(history)), 2, squeeze=False)
    for (phase, records), (left, right) in zip(history.items(), panels, strict=True):
        epochs = [record["epoch"] for record in records]
        left.plot(epochs, [record["loss"] for record in records], marker=".", label="training loss")
        left.set_title(f"{phase}: loss")
        for name in records[0] if records else ():
            if name.startswith(SHOWN) and all(name in record for record in records):
                label = "training accuracy" if name == "accuracy" else name.replace("_", " ")
                style = "--" if name == "accuracy" else "-"
                right.plot(epochs, [record[name] for record in records], style, marker=".", label=label)
        right.set_title(f"{phase}: validation")
        for panel in (left, right):
            panel.set_xlabel("epoch")
            panel.grid(alpha=0.3)
            panel.legend(fontsize="small")
    return figure
