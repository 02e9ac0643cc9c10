"""`poolsieve report`: a page about a run in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolsieve.cli.saying import say


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="Folder of a run of `poolsieve moderate --on …`, finished or not, also in an object store.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page. \\[default: report.html in the run's folder]")
    ] = None,
    bundle: Annotated[
        str | None, typer.Option(help="The bundle that judged, if it is not where it was any more.")
    ] = None,
) -> None:
    """Write a page about a run: findings, grounds, cost.

    For instance:

        poolsieve report run-1/
    """
    from rich.console import Console

    import poolsieve.images  # noqa: F401 - first, as it says which extra is missing
    from poolsieve.cli.moderation_outputs import write_outputs
    from poolsieve.distributed import BundleOpening, RunFolder
    from poolsieve.distributed.driving import open_run
    from poolsieve.moderation.run_files import RunFiles
    from poolsieve.moderation.run_source import RunSource

    folder = RunFolder(run)
    settings = folder.needed_settings()
    if out is None and folder.location.remote:
        raise ValueError("the run lies in an object store; name the page on disk with --out report.html")
    page = Path(run) / "report.html" if out is None else out
    judged = open_run(folder, BundleOpening(bundle or settings.bundle, settings.options).choose())
    files = RunFiles(Path(run), report=page)
    write_outputs(
        judged,
        folder,
        RunSource(list(settings.source), settings.column, files),
        Console(stderr=True),
        None if settings.options.get("plan") is None else Path(settings.options["plan"]),
    )
    unfinished = "" if folder.finished else f"; the run is not finished, so it tells of {judged.done:,} parts"
    say(Console(), f"wrote {page}{unfinished}")
