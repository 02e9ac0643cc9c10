"""Lines for people, in which names that come from strangers can do no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolsieve.shown_text import shown

if TYPE_CHECKING:
    from rich.console import Console


def say(console: Console, text: str) -> None:
    """Print one line as it is."""
    console.print(shown(text), markup=False, highlight=False, soft_wrap=True)
