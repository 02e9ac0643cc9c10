"""The grounds of one verdict, from a run or from a finished table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve.cli.saying import say
from poolsieve.shown_text import shown

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.moderation.verdicts import Verdict


def explain(verdicts: Callable[[], Iterator[Verdict]], image: str, console: Console) -> bool:
    """Print the grounds of the verdict on an image; gives whether there is such an image.

    It is named by its path or the end of it, as it is or as it is shown on a screen.
    """
    found = next((verdict for verdict in verdicts() if _is_named(verdict.path, image)), None)
    if found is None:
        return False
    mates = {position for pool in found.pools for position in pool.members}
    names = {verdict.position: verdict.path for verdict in verdicts() if mates and verdict.position in mates}
    for line in found.explain(names):
        say(console, line)
    return True


def explain_from_table(sources: list[str], image: str, console: Console) -> None:
    """Print the grounds of a verdict in a finished table; ValueError if it is none, or has no such image."""
    from poolsieve.moderation.verdict_files import ENDINGS, read_verdicts

    table = Path(sources[0])
    if len(sources) > 1 or table.suffix not in ENDINGS:
        raise ValueError(
            f"--explain without --bundle and --out takes one finished table ({', '.join(ENDINGS)}), not "
            f"{', '.join(sources)}; or give --bundle and --out to judge images"
        )
    if not explain(lambda: read_verdicts(table), image, console):
        raise ValueError(f"no image in {table} is named {image}; give its path, or its whole file name")


def _is_named(path: str, image: str) -> bool:
    names, wanted = {path, shown(path)}, {image, shown(image)}  # Parquet holds names as they are shown
    return any(name == end or name.endswith(f"/{end}") for name in names for end in wanted)
