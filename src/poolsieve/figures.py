"""Making and saving figures, in one place: no screen, no global state of matplotlib, whole files only."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolsieve.files import check_writable, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Okabe and Ito's colours, which colour-blind people can tell apart."""


def new_figure(**settings: Any) -> Figure:
    """An empty figure; `settings` are those of `matplotlib.figure.Figure`. ImportError if that is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'poolsieve[plot]'") from None
    return Figure(**settings)


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """Raise at once, before long work, if a figure cannot be written there."""
    target = check_writable(path)
    new_figure()
    if target.suffix not in ENDINGS:
        raise ValueError(f"{target}: figures end in {', '.join(ENDINGS)}")
    return target


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure in the format its ending names; the file appears whole or not at all."""
    target = check_figure_path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=target.suffix[1:], dpi=150)
    return write_atomically(target, buffer.getvalue())
