"""What a run of moderation says at its end: a table for people, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolsieve.cli.saying import say

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.moderation.judged_run import JudgedRun
    from poolsieve.moderation.run_source import RunSource
    from poolsieve.moderation.verdicts import Verdict

_ARCHIVES_NAMED = 3


def print_summary(
    moderator: JudgedRun, source: RunSource, console: Console, *, out: str | None = None, speed: str = ""
) -> None:
    """The table for people; `out` and `speed` are said in place of what a run by one process has."""
    from rich.table import Table

    totals = moderator.totals
    estimate = totals.estimated_prevalence()
    rows: list[tuple[str, Any]] = [
        ("images", f"{totals.images:,}"),
        ("flagged", f"{totals.flagged:,}"),
        ("clear", f"{totals.clear:,}"),
        ("errors", f"{totals.errors:,}"),
        *([("not images", f"{totals.not_images:,} files, not judged")] if totals.not_images else []),
        ("speed", speed or f"{totals.images_per_second:.1f} images/s"),
        ("cost", f"{totals.meter.share:.3f} of testing every image individually"),
        ("", totals.meter.lines()[0]),
        ("time", totals.meter.lines()[2]),
        ("estimated prevalence", "unknown" if estimate is None else f"{estimate} (95%)"),
        ("scheme", moderator.description),
        *([("plan at first", totals.first_plan())] if totals.controller is not None else []),
        *(("plan changed", line) for line in totals.plan_changes()),
        ("seed", str(moderator.seed)),
    ]
    table = Table(show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    console.print(table, highlight=False, markup=False)
    say(console, f"wrote {out or source.files.out}")
    if source.files.report is not None:
        say(console, f"wrote {source.files.report}")


def json_summary(moderator: JudgedRun, source: RunSource, passed_over: int, *, out: str | None = None) -> str:
    """The same for programs; docs/moderating.md names the fields."""
    totals, files, bundle = moderator.totals, source.files, moderator.bundle
    estimate = totals.estimated_prevalence()
    paths = {"out": out or files.out, "report": files.report}
    paths |= {"contact_sheet": files.sheet, "copies": files.copies}
    return json.dumps(
        {
            **{name: None if path is None else str(path) for name, path in paths.items()},
            "finished_before": False,
            "images": totals.images,
            "flagged": totals.flagged,
            "clear": totals.clear,
            "errors": totals.errors,
            "not_images": totals.not_images,
            "own_outputs_passed_over": passed_over,
            "images_per_second": round(totals.images_per_second, 3),
            "seconds": {stage: round(seconds, 3) for stage, seconds in totals.meter.seconds.items()},
            "cost_share": round(totals.meter.share, 6),
            "estimated_prevalence": None if estimate is None else asdict(estimate),
            "bundle": {"name": bundle.name, "hash": bundle.hash},
            "scheme": moderator.description,
            "plan_at_first": totals.first_plan(),
            "plan_changes": totals.plan_changes(),
            "unfinished_chunks": totals.unfinished,
            "seed": moderator.seed,
        }
    )


def json_of_finished(out: str | Path) -> str:
    """In place of a summary, where there was nothing to do."""
    return json.dumps({"out": str(out), "finished_before": True})


def inner_archives(verdicts: Iterable[Verdict]) -> list[str]:
    """Archives that lie in a source and were not opened."""
    from poolsieve.images.image_files import is_archive

    return [v.path for v in verdicts if v.status == "not_image" and is_archive(v.path)]


def warnings(moderator: JudgedRun, *, by_plan: bool) -> list[str]:
    """What one should know of the verdicts."""
    from poolsieve.schemes.scheme import UNNAMED

    lines = []
    if chunks := moderator.totals.unfinished:
        lines.append(
            f"warning: in {chunks:,} {'chunk' if chunks == 1 else 'chunks'} the decoder stopped before it "
            "was done; see the column note, and take another decoder (--decoder bp) or scheme if there are "
            "many"
        )
    if by_plan and moderator.scheme.name != UNNAMED:  # stages of one's own promise nothing
        lines += _out_of_plan(moderator)
    return lines


def hints(source: RunSource, images: int, archives: list[str], passed_over: dict[str, int]) -> list[str]:
    """What one should know of the source."""
    from poolsieve.images.reading import FORMATS

    lines = []
    if passed_over:
        number, folders = sum(passed_over.values()), ", ".join(sorted(passed_over))
        lines.append(f"passed over {number:,} files that earlier runs of poolsieve wrote, in {folders}")
    if archives:
        more = "" if len(archives) <= _ARCHIVES_NAMED else f" and {len(archives) - _ARCHIVES_NAMED:,} more"
        named = ", ".join(archives[:_ARCHIVES_NAMED])
        lines.append(f"not opened: {named}{more}. To judge what is in an archive, give it as a source itself")
    if not images:
        lines.append(
            f"no image was found in {', '.join(source.names)}. A folder is searched with all below it for "
            "files with any ending; a .csv or .jsonl lists paths in a column, a .zip or .tar holds images. "
            f"{', '.join(FORMATS)} are read, told by their content"
        )
    return lines


def _out_of_plan(moderator: JudgedRun) -> list[str]:
    """Whether the share of bad images was not what the plan is for; it was followed all the same."""
    planned, estimate = getattr(moderator.scheme, "prevalence", None), moderator.totals.estimated_prevalence()
    if planned is None or estimate is None:
        return []
    if estimate.low > planned:
        what = "it may miss more than it promises"
    elif estimate.high < planned / 2:
        what = "a plan for fewer would cost less"
    else:
        return []
    return [
        f"warning: the plan is for a prevalence of {planned:.2%}, but {estimate} was found: {what}. Plan "
        "again, or leave out --plan, so that plans change with the images"
    ]
