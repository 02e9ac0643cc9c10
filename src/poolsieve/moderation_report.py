"""A page about one run of moderation: what was found, on what grounds, and what it cost."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from PIL import Image

from poolsieve.false_flags import DetectionRates, false_flags_sentence
from poolsieve.html import data_url, escaped, name_of, page
from poolsieve.images.datasets import IMAGE_ENDINGS
from poolsieve.schemes.cost import list_parts
from poolsieve.verdicts import PoolReading, Verdict

if TYPE_CHECKING:
    from poolsieve.moderation import Totals
    from poolsieve.schemes import CostMeter

ERRORS_SHOWN = 100
_COLOURS = ("var(--pale)", "var(--warm)", "var(--deep)", "var(--bad)", "var(--good)")


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
    body = [
        f"<h1>Moderation report: {escaped(run.task)}</h1>",
        f'<p class="faint">bundle {escaped(run.bundle)} ({run.bundle_hash[:12]}), '
        f"scheme {escaped(run.scheme.partition('(')[0])}</p>",
        _facts(totals, rates),
        _cost(totals.meter),
        _flagged(totals, shown, thumbnails, names, folder),
        _errors(totals, errors),
        _plans(totals),
        _again(run),
    ]
    return page(f"{run.task}: {totals.flagged:,} of {totals.images:,} images flagged", "".join(body))


def mates_of(shown: Iterable[Verdict]) -> set[int]:
    """Positions of all images that share a pool with one that is shown."""
    return {position for verdict in shown for pool in verdict.pools for position in pool.members}


def _facts(totals: Totals, rates: DetectionRates | None) -> str:
    estimate = totals.estimated_prevalence()
    facts = [
        (f"{totals.images:,}", "images"),
        (f"{totals.flagged:,}", "flagged"),
        (f"{totals.clear:,}", "clear"),
        (f"{totals.errors:,}", "could not be read"),
        *([(f"{totals.not_images:,}", "files that are no images")] if totals.not_images else []),
        (f"{100 * totals.meter.share:.1f}%", "of the cost of testing every image"),
        (f"{totals.images_per_second:,.1f}", "images a second"),
    ]
    cells = "".join(f'<div class="fact"><b class="number">{value}</b>{what}</div>' for value, what in facts)
    share = "unknown" if estimate is None else f"{estimate} (95% interval)"
    false = escaped(false_flags_sentence(totals, rates))
    return (
        f'<div class="facts">{cells}</div><p>Estimated share of bad images: {escaped(share)}.</p>'
        + f"<p>{false}</p>" * bool(false)
    )


def _cost(meter: CostMeter) -> str:
    parts, each = list_parts(), meter.shares()
    runs, shares = [meter.runs[part.name] for part in parts], [each[part.name] for part in parts]
    shown = [(part.title, colour) for part, colour in zip(parts, itertools.cycle(_COLOURS), strict=False)]
    longest = max(1.0, sum(shares))
    spans = "".join(
        f'<span style="width:{100 * share / longest:.2f}%;background:{colour}" title="{name}"></span>'
        for share, (name, colour) in zip(shares, shown, strict=True)
    )
    rows = "".join(
        f'<tr><td><span class="key" style="background:{colour}"></span> {name}</td>'
        f'<td class="number">{number:,} runs</td><td class="number">{100 * share:.1f}%</td></tr>'
        for number, share, (name, colour) in zip(runs, shares, shown, strict=True)
        if number
    )
    stages = ", ".join(f"{escaped(stage)} {seconds:.1f} s" for stage, seconds in meter.seconds.items())
    return (
        f'<h2>Cost</h2><div class="bar">{spans}</div>'
        '<p class="note">The whole bar is the individual network on every image. '
        "A share counts multiply-adds, not seconds.</p>"
        f'<div class="wide"><table>{rows}</table></div><p class="note">Time: {stages or "none"}.</p>'
    )


def _plans(totals: Totals) -> str:
    if totals.follower is None:
        return ""
    changes = "".join(f"<li>{escaped(line)}</li>" for line in totals.plan_changes())
    return f"<h2>Plans</h2><p>At first: {escaped(totals.first_plan())}.</p>" + (
        f"<ul>{changes}</ul>" if changes else "<p>It was kept.</p>"
    )


def _flagged(
    totals: Totals,
    shown: Sequence[Verdict],
    thumbnails: Mapping[int, Image.Image | None],
    names: Mapping[int, str],
    folder: Path | None,
) -> str:
    if not shown:
        return "<h2>Flagged images</h2><p>None.</p>"
    cards = "".join(_card(verdict, thumbnails.get(verdict.position), names, folder) for verdict in shown)
    which = "all" if len(shown) == totals.flagged else f"the {len(shown):,} with the highest scores of"
    pools = (
        " Numbers behind a pool's count tell how likely each count would be, were all equally common."
        if any(verdict.pools for verdict in shown)
        else ""
    )
    return (
        f'<h2>Flagged images</h2><p class="note">Shown: {which} {totals.flagged:,}. '
        f"A flag is a network's opinion; let people look before anything follows from it.{pools}</p>"
        f'<div class="cards">{cards}</div>'
    )


def _card(
    verdict: Verdict, picture: Image.Image | None, names: Mapping[int, str], folder: Path | None
) -> str:
    image = (
        '<div class="missing">cannot be<br>read again</div>'
        if picture is None
        else f'<img alt="" src="{data_url(picture)}">'
    )
    path, link = PurePath(verdict.path), None if folder is None else link_to(verdict.path, folder)
    name = name_of(path.name)
    lines = [f"<b>{name}</b>" if link is None else f'<b><a rel="noreferrer" href="{link}">{name}</a></b>']
    if str(path.parent) != ".":
        lines.append(f'<span class="faint">in {name_of(path.parent)}</span>')
    lines.append(f'<span class="flagged">score <span class="number">{verdict.score:.3f}</span></span>')
    lines.append(f'<span class="faint">{escaped(grounds(verdict))}</span>')
    if verdict.note is not None:
        lines.append(f'<span class="faint">note: {escaped(verdict.note)}</span>')
    lines.append(f'<span class="faint">position {verdict.position}, chunk {verdict.chunk}</span>')
    more = ""
    if verdict.pools:
        pools = "".join(_pool(pool, verdict, names) for pool in verdict.pools)
        more = f"<details><summary>{_its_pools(verdict)}</summary>{pools}</details>"
    side = f'<div class="side">{image}<div>{"<br>".join(lines)}</div></div>'
    return f'<div class="card">{side}{more}</div>'


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


_FIRST_LOOKS = {
    "glance": "looked at small first",
    "cascade": "first look by the cheap head",
    "adaptive": "first look by the cheap head",
}


def grounds(verdict: Verdict) -> str:
    """What led to the verdict, in the order in which it was done, in the words of its scheme."""
    scheme = verdict.scheme.partition("(")[0]
    steps = []
    # Elsewhere the prior is what was expected of every image, and no look at this one.
    if verdict.prior is not None and scheme in _FIRST_LOOKS and "clear_below=" in verdict.scheme:
        steps.append(f"{_FIRST_LOOKS[scheme]}: {verdict.prior:.3g}")
    if verdict.pools and verdict.pool_score is not None:
        steps.append(f"after {_its_pools(verdict)}: {verdict.pool_score:.3g}")
    if verdict.decided_by == "individual":
        steps.append(f"tested on its own: {verdict.score:.3g}")
        threshold = re.search(r"\bthreshold=([0-9.e-]+)", verdict.scheme)
        steps += [f"threshold {float(threshold[1]):g}"] if threshold else []
    else:
        by = {"pools": "its pools", "head": "the cheap head", "glance": "the look at it small"}
        steps.append(
            f"decided by {by.get(str(verdict.decided_by), verdict.decided_by)}, not tested on its own"
        )
    return "; ".join(steps)


def _its_pools(verdict: Verdict) -> str:
    return "its pool" if len(verdict.pools) == 1 else f"its {len(verdict.pools)} pools"


def _pool(pool: PoolReading, verdict: Verdict, names: Mapping[int, str]) -> str:
    likely = sorted(enumerate(pool.chances), key=lambda pair: -pair[1])[:3]
    chances = ", ".join(f"{count}: {100 * chance:.1f}%" for count, chance in likely)
    mates = "".join(
        f"<li>{name_of(PurePath(names.get(mate, f'image {mate}')).name)}</li>"
        for mate in pool.members
        if mate != verdict.position
    )
    return (
        f'<div class="pool">pool {pool.number} was read as holding <b>{pool.count}</b> bad '
        f'<span class="faint">({chances})</span>, with<ul>{mates}</ul></div>'
    )


def _errors(totals: Totals, errors: Iterable[Verdict]) -> str:
    if not totals.errors:
        return ""
    rows = "".join(
        f"<tr><td>{name_of(verdict.path)}</td><td>{escaped(verdict.reason)}</td></tr>"
        for verdict in islice(errors, ERRORS_SHOWN)
    )
    more = f" The first {ERRORS_SHOWN} are listed." if totals.errors > ERRORS_SHOWN else ""
    return (
        f'<h2>Not judged</h2><p class="note">{totals.errors:,} images could not be read. '
        f'That is not the same as clear.{more}</p><div class="wide"><table>{rows}</table></div>'
    )


def _again(run: RunDescription) -> str:
    return (
        '<h2>To run it again</h2><div class="wide"><table>'
        f"<tr><th>bundle</th><td><code>{escaped(run.bundle)} {run.bundle_hash}</code></td></tr>"
        f"<tr><th>scheme</th><td><code>{escaped(run.scheme)}</code></td></tr>"
        f"<tr><th>seed</th><td><code>{run.seed}</code></td></tr></table></div>"
        '<p class="note">Keep the seed to yourself while it is in use: '
        "who knows it can choose their pool-mates.</p>"
    )
