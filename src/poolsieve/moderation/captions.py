"""Captions of pictures: names in letters that a font at hand has, what none has as escapes."""

from __future__ import annotations

import importlib.util
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from PIL import ImageDraw, ImageFont

from poolsieve.shown_text import escape, shown

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont

FONT_SIZE = 11
_OTHER_FONTS = (
    *("NotoSansCJK-Regular.ttc", "DroidSansFallbackFull.ttf", "wqy-microhei.ttc"),  # Linux
    *("Arial Unicode.ttf", "PingFang.ttc"),  # macOS
    *("msyh.ttc", "msgothic.ttc", "malgun.ttf"),  # Windows
)
"""Fonts with Chinese, Japanese or Korean letters, where systems have them."""
_NO_LETTER = "\U0010ffff"
"""Never a letter: what a font draws for it stands for all that it does not have."""
_ELLIPSIS = "..."
_MOST_LETTERS = 300
"""More have no room on any picture, and a member of an archive may have a name of megabytes."""


def draw_caption(
    draw: ImageDraw.ImageDraw, place: tuple[float, float], text: str, width: int, fill: str
) -> str:
    """Draw one line of text whose top left corner is at a place.

    Args:
        draw: Draws it.
        place: Where to.
        text: A stranger's.
        width: Pixels that there is room for; what is longer loses its middle.
        fill: Its colour.

    Returns:
        The text that was drawn.
    """
    safe = shorten(shown(text), lambda line: len(line) <= _MOST_LETTERS)
    font = _font_for(safe)
    letters = "".join(letter if _draws(font, letter) else escape(letter) for letter in safe)
    drawn = shorten(letters, lambda line: font.getlength(line) <= width)
    draw.text(place, drawn, fill=fill, font=font)
    return drawn


def shorten(text: str, fits: Callable[[str], bool]) -> str:
    """The text, or as much of it as fits without its middle, since names end in what they are."""
    if fits(text):
        return text

    def without_middle(kept: int) -> str:
        head = kept // 2
        return text[:head] + _ELLIPSIS + text[len(text) - (kept - head) :]

    numbers = range(1, len(text) + 1)
    return without_middle(bisect(numbers, False, key=lambda kept: not fits(without_middle(kept))))


def _font_for(text: str) -> Font:
    """The first font that has all letters, or the one with most; one for all, as letters may join."""
    tried = []
    for font in _fonts():
        tried.append((sum(_draws(font, letter) for letter in text), font))
        if tried[-1][0] == len(text):
            break
    return max(tried, key=lambda pair: pair[0])[1]


def _fonts() -> Iterator[Font]:
    """Fonts at hand; those of the system are looked for only if no other has all letters."""
    yield _font(_matplotlib_font()) or _pillow_font()
    yield from filter(None, map(_font, _OTHER_FONTS))


def _matplotlib_font() -> str:
    """It has the letters of most alphabets and comes with figures; Pillow's own lacks even umlauts."""
    found = importlib.util.find_spec("matplotlib")
    folder = Path() if found is None or found.origin is None else Path(found.origin).parent
    return str(folder / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf")


@cache
def _pillow_font() -> Font:
    return ImageFont.load_default(FONT_SIZE)


@cache
def _font(file: str) -> Font | None:
    try:
        return ImageFont.truetype(file, FONT_SIZE)
    except (OSError, ImportError):  # there is none, or Pillow was built without FreeType
        return None


@cache
def _draws(font: Font, letter: str) -> bool:
    """Whether a font has a letter."""
    if isinstance(font, ImageFont.ImageFont):  # Pillow's picture of ASCII
        return letter.isascii()
    return _picture(font, letter) != _picture(font, _NO_LETTER)


def _picture(font: ImageFont.FreeTypeFont, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)
