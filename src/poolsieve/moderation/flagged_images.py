"""The flagged images themselves, and a sheet that shows them with their scores."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from PIL import Image, ImageDraw, ImageOps

from poolsieve.images.sources import Item, read_content
from poolsieve.moderation.captions import draw_caption
from poolsieve.moderation.verdicts import Verdict

SHEET_IMAGES = 120
"""The most images on a sheet: those with the highest scores."""
_THUMB, _CAPTION, _GAP, _COLUMNS = 160, 28, 8, 10


def worst(verdicts: Iterable[Verdict], most: int = SHEET_IMAGES) -> list[Verdict]:
    """The flagged verdicts with the highest scores, highest first."""
    flagged = (verdict for verdict in verdicts if verdict.flagged)
    return heapq.nlargest(most, flagged, key=lambda verdict: (verdict.score or 0.0, -verdict.position))


def items_of(items: Iterable[Item], names: Mapping[int, str]) -> Iterator[tuple[int, Item]]:
    """Those items of a source that stand at some positions, if they still are the ones that are named."""
    left = len(names)
    for position, item in enumerate(items):
        if not left:
            return
        if position in names:
            left -= 1
            if item.name == names[position]:
                yield position, item


def thumbnail(item: Item) -> Image.Image | None:
    """A small square view of an image; None if it cannot be read any more."""
    content = read_content(item, None, at_least=_THUMB)
    return None if content.image is None else ImageOps.pad(content.image, (_THUMB, _THUMB), color="#202020")


def contact_sheet(verdicts: Iterable[Verdict], thumbnails: Mapping[int, Image.Image | None]) -> Image.Image:
    """One picture of images with their scores and names.

    Args:
        verdicts: In the order in which they are shown.
        thumbnails: By position in the source.
    """
    shown = list(verdicts)
    columns = min(_COLUMNS, max(len(shown), 1))
    rows = max(-(-len(shown) // columns), 1)
    step_x, step_y = _THUMB + _GAP, _THUMB + _CAPTION + _GAP
    sheet = Image.new("RGB", (columns * step_x + _GAP, rows * step_y + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    if not shown:
        draw_caption(draw, (_GAP, _GAP), "no image is flagged", _THUMB, "black")
    for k, verdict in enumerate(shown):
        left, top = _GAP + k % columns * step_x, _GAP + k // columns * step_y
        picture = thumbnails.get(verdict.position)
        if picture is None:
            draw.rectangle((left, top, left + _THUMB, top + _THUMB), outline="grey")
        else:
            sheet.paste(picture, (left, top))
        draw_caption(draw, (left, top + _THUMB + 1), f"{verdict.score:.3f}", _THUMB, "black")
        name = verdict.path.rsplit("/", 1)[-1]
        draw_caption(draw, (left, top + _THUMB + 14), name, _THUMB, "grey")
    return sheet
