"""A page about one run of moderation: what was found, on what grounds, and what it cost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from PIL import Image

from poolsieve import pages
from poolsieve.images.datasets import IMAGE_ENDINGS
from poolsieve.line_styles import BLACK, colour_of
from poolsieve.moderation.false_flags import DetectionRates, false_flags_sentence
from poolsieve.moderation.verdicts import PoolReading, Verdict
from poolsieve.schemes.scheme_texts import Looks, decider, looks_at

if TYPE_CHECKING:
    from poolsieve.moderation.moderator import Totals
    from poolsieve.schemes import CostMeter

ERRORS_SHOWN = 100


@dataclass(frozen=True)
class RunDescription:
    """What it takes to run it again.

    Attributes:
        bundle: Name of the bundle.
        bundle_hash: Its hash.
        task: What the bundle looks for.
        scheme: The scheme with its parameters.
        seed: Decides who shares a pool with whom.
    """

    bundle: str
    bundle_hash: str
    task: str
    scheme: str
    seed: int


def moderation_page(
    run: RunDescription,
    totals: Totals,
    shown: Sequence[Verdict],
    thumbnails: Mapping[int, Image.Image | None],
    names: Mapping[int, str],
    errors: Iterable[Verdict],
    *,
    rates: DetectionRates | None = None,
    folder: Path | None = None,
) -> str:
    """The page as HTML.

    Args:
        run: What was run.
        totals: Counts, cost and estimated prevalence.
        shown: The flagged images that are shown, in their order on the page.
        thumbnails: Of these, by position in the source.
        names: Names of their pool-mates, by position.
        errors: Verdicts on images that could not be read; the first 100 are listed.
        rates: What is known of how the run detected.
        folder: Where the page will stand, from which files are linked to; None links to none.
    """
    cost = _cost(totals.meter)
    return pages.render(
        "moderation.html",
        run=run,
        totals=totals,
        false_flags=false_flags_sentence(totals, rates),
        cost=cost,
        longest=max(1.0, sum(part.share for part in cost)),
        shown=shown,
        thumbnails=thumbnails,
        names=names,
        errors=list(islice(errors, ERRORS_SHOWN)),
        link_to=lambda path: None if folder is None else link_to(path, folder),
        grounds=grounds,
        its_pools=_its_pools,
        likely_counts=_likely_counts,
        PurePath=PurePath,
    )


def mates_of(shown: Iterable[Verdict]) -> set[int]:
    """Positions of all images that share a pool with one that is shown."""
    return {position for verdict in shown for pool in verdict.pools for position in pool.members}


class _Paid(NamedTuple):
    """A part of the cost: what was run, how often, its share of testing every image, its colour."""

    name: str
    runs: float
    share: float
    colour: str


def _cost(meter: CostMeter) -> list[_Paid]:
    shares = meter.shares()
    return [
        _Paid(part.title, meter.runs[part.name], shares[part.name], _shown_colour(part.name))
        for part in meter.parts()
    ]


def _shown_colour(part: str) -> str:
    """That of figures; black is what text has, which is light on a dark page."""
    colour = colour_of(part)
    return "var(--ink)" if colour == BLACK else colour


def link_to(path: str, folder: Path) -> str | None:
    """A link from a page in a folder to an image file; None if there is no such file.

    Files whose name does not end like an image's are not linked to: a browser goes by the ending, and would
    run what a stranger wrote into a file that is an image and a page at once.
    """
    if PurePath(path).suffix.lower() not in IMAGE_ENDINGS or not os.path.isfile(path):  # noqa: PTH113 - odd names
        return None
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:  # on another drive
        return Path(path).absolute().as_uri()
    return quote(os.fsencode(relative.replace(os.sep, "/")))


def grounds(verdict: Verdict) -> str:
    """What led to the verdict, in the order in which it was done, in the words of its scheme's stages."""
    steps = []
    # Elsewhere the prior is what was expected of every image, and no look at this one.
    looks = Looks() if verdict.prior is None else looks_at(verdict.scheme, verdict.decided_by)
    if looks.first:
        said = ", then ".join((looks.first[0].first_look, *(look.way for look in looks.first[1:])))
        steps.append(f"{said}: {verdict.prior:.3g}" if looks.prior_of == "first" else said)
    if verdict.pools and verdict.pool_score is not None:
        steps.append(f"after {_its_pools(verdict)}: {verdict.pool_score:.3g}")
    if looks.later:
        said = "a look " + ", then ".join(look.way for look in looks.later)
        steps.append(f"{said}: {verdict.prior:.3g}" if looks.prior_of == "later" else said)
    if verdict.decided_by == "individual":
        steps.append(f"tested on its own: {verdict.score:.3g}")
        threshold = re.search(r"\bthreshold=([0-9.e-]+)", verdict.scheme)
        steps += [f"threshold {float(threshold[1]):g}"] if threshold else []
    else:
        by = decider(verdict.scheme, str(verdict.decided_by))
        steps.append(f"decided by {by}, not tested on its own")
    return "; ".join(steps)


def _its_pools(verdict: Verdict) -> str:
    return "its pool" if len(verdict.pools) == 1 else f"its {len(verdict.pools)} pools"


def _likely_counts(pool: PoolReading) -> list[tuple[int, float]]:
    """The three likeliest counts of a pool, likeliest first."""
    return sorted(enumerate(pool.probabilities), key=lambda pair: -pair[1])[:3]
