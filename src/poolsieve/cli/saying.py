"""Lines for people, in which names that come from strangers can do no harm."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters that steer a terminal, turn text around or cannot be printed."""


def shown(text: str, *, keep: str = "") -> str:
    """Text with everything escaped that steers a terminal, but for the characters in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in keep or unicodedata.category(letter) not in _HARMFUL else _escaped(letter)
        for letter in text
    )


def _escaped(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file's name that is no text
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


def say(console: Console, text: str) -> None:
    """Print one line as it is."""
    console.print(shown(text), markup=False, highlight=False, soft_wrap=True)
