"""A page that shows the pools of one chunk: who shared which, what was read, and what followed from it.

It tells what is otherwise never told to outsiders (who shared a pool with whom), so only who asks for it gets
it; see docs/security.md. Nothing in it runs: what lights up does so by style sheets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from poolsieve.pages import render
from poolsieve.schemes import Decision

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class ShownPool:
    """One pool as the page shows it.

    Attributes:
        number: Counted from 0.
        images: Its images.
        read: How many bad images the counting network read.
        explained: How many of its images are flagged.
    """

    number: int
    images: tuple[int, ...]
    read: int
    explained: int


@dataclass(frozen=True)
class ShownImage:
    """One image as the page shows it.

    Attributes:
        number: Counted from 0.
        name: What it is called.
        picture: A small picture of it.
        pools: Its pools.
        flagged: Whether it was flagged.
        score: The decoder's score, or that of the test behind the pools.
        decided_by: The stage that decided.
    """

    number: int
    name: str
    picture: Image.Image
    pools: tuple[int, ...]
    flagged: bool
    score: float
    decided_by: str


def pools_page(decision: Decision, names: Sequence[str], pictures: Sequence[Image.Image], title: str) -> str:
    """The page, as HTML.

    Args:
        decision: What a scheme with pools decided about a chunk.
        names: What its images are called.
        pictures: Small pictures of them.
        title: What stands at its top.

    Raises:
        ValueError: No pools were read, or there are not as many names and pictures as images.
    """
    pooling, readings = decision.pooling, decision.readings
    if pooling is None or readings is None:
        raise ValueError("this chunk has no pools to show; decide it by a scheme with pools, such as oneshot")
    if not len(names) == len(pictures) == len(decision.flags):
        raise ValueError(
            f"{len(decision.flags)} images were decided, but there are {len(names)} names and "
            f"{len(pictures)} pictures"
        )
    counts = np.asarray(readings.counts[0])
    members = [tuple(int(image) for image in row if 0 <= image < len(names)) for row in pooling.pools]
    pools = [
        ShownPool(number, images, int(counts[number]), int(decision.flags[list(images)].sum()))
        for number, images in enumerate(members)
    ]
    images = [
        ShownImage(
            number,
            name,
            pictures[number],
            tuple(pool.number for pool in pools if number in pool.images),
            bool(decision.flags[number]),
            float(decision.scores[number]),
            str(decision.decided_by[number]),
        )
        for number, name in enumerate(names)
    ]
    return render("pools.html", title=title, pools=pools, images=images, note=decision.note)
