"""What a run of moderation leaves beside its table: copies of flagged images, a contact sheet, a page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve.cli.saying import say
from poolsieve.files import write_atomically
from poolsieve.moderation.false_flags import detection_rates
from poolsieve.moderation.flagged_copies import copy_images
from poolsieve.moderation.flagged_images import contact_sheet, thumbnail, worst
from poolsieve.moderation.report import RunDescription, mates_of, moderation_page

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.moderation.judged_run import JudgedRun, VerdictRecords
    from poolsieve.moderation.run_source import RunSource


def write_outputs(
    moderator: JudgedRun, log: VerdictRecords, source: RunSource, console: Console, plan: Path | None
) -> None:
    """Write what is asked for, from the images as they are now.

    `plan` is the file of the plan that was followed, if one was given.
    """
    files = source.files
    if files.copies is not None:
        flagged = {verdict.position: verdict.path for verdict in log.verdicts() if verdict.flagged}
        copied, failures = copy_images(source.items_again(flagged), files.copies)
        for line in failures:
            say(console, line)
        say(console, f"copied {copied:,} flagged images to {files.copies}")
    if files.sheet is None and files.report is None:
        return
    shown = worst(log.verdicts())
    paths = {verdict.position: verdict.path for verdict in shown}
    thumbnails = {position: thumbnail(item) for position, item in source.items_again(paths)}
    if files.sheet is not None:
        picture = io.BytesIO()
        contact_sheet(shown, thumbnails).save(picture, format="png")
        write_atomically(files.sheet, picture.getvalue())
        say(console, f"drew {len(shown):,} flagged images into {files.sheet}")
    if files.report is None:
        return
    mates, bundle = mates_of(shown), moderator.bundle
    names = {verdict.position: verdict.path for verdict in log.verdicts() if verdict.position in mates}
    run = RunDescription(bundle.name, bundle.hash, bundle.config.task, moderator.description, moderator.seed)
    errors = (verdict for verdict in log.verdicts() if verdict.status == "error")
    told = run, moderator.totals, shown, thumbnails, names, errors
    page = moderation_page(*told, rates=detection_rates(moderator, plan), folder=files.report.parent)
    write_atomically(files.report, page.encode())
