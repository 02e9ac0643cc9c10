"""The flagged images themselves: copies for review, and a sheet that shows them with their scores."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageOps

from poolsieve.files import write_atomically
from poolsieve.images.sources import Item, read_content
from poolsieve.verdicts import Verdict

SHEET_IMAGES = 120
"""The most images on a sheet: those with the highest scores."""
_THUMB, _CAPTION, _GAP, _COLUMNS = 160, 28, 8, 10
_NAME_LENGTH = 80


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


def copy_images(items: Iterable[tuple[int, Item]], folder: Path) -> tuple[int, list[str]]:
    """Copy images, unchanged, as `position_name` into a folder.

    Names come from strangers, so nothing of them but letters, digits, points and dashes of their last part
    is kept.

    Returns:
        Number of copies, and a line for each image that could not be read again.
    """
    copied, failures = 0, []
    folder.mkdir(parents=True, exist_ok=True)
    for position, item in items:
        try:
            content = item.load()
        except (OSError, ValueError) as error:
            failures.append(f"{item.name} was not copied: {error}")
            continue
        name = re.sub(r"[^\w.-]", "_", item.name.rsplit("/", 1)[-1])[-_NAME_LENGTH:]
        if isinstance(content, Image.Image):
            content.save(folder / f"{position:07d}_{name}.png")
        else:
            write_atomically(folder / f"{position:07d}_{name}", content)
        copied += 1
    return copied, failures


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
        draw.text((_GAP, _GAP), "no image is flagged", fill="black")
    for k, verdict in enumerate(shown):
        left, top = _GAP + k % columns * step_x, _GAP + k // columns * step_y
        picture = thumbnails.get(verdict.position)
        if picture is None:
            draw.rectangle((left, top, left + _THUMB, top + _THUMB), outline="grey")
        else:
            sheet.paste(picture, (left, top))
        name = verdict.path.rsplit("/", 1)[-1].encode("ascii", "replace").decode()
        draw.text((left, top + _THUMB + 2), f"{verdict.score:.3f}", fill="black")
        draw.text((left, top + _THUMB + 14), name if len(name) <= 26 else f"...{name[-23:]}", fill="grey")
    return sheet
