"""`poolsieve review`: decide on what a finished `moderate` run has flagged, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from poolsieve.review.finished_run import Judged


def review(
    verdicts: Annotated[
        str,
        typer.Argument(
            help="Table that `moderate` wrote: .csv, .jsonl or .parquet; or the folder of a run in parts, "
            "also in an object store.",
            show_default=False,
        ),
    ],
    images: Annotated[
        str | None,
        typer.Argument(
            help="With a table, the images as they were given to `moderate`; a run in parts knows its own.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV that decisions go to. By default decisions.csv beside the table, or here.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file that keeps the review, to go on later. By default beside the table.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of clear images to look at too, unmarked.")
    ] = 0.01,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Review flagged images in a browser on this machine; every decision goes to decisions.csv at once.

    Stop it with Ctrl-C; the same command goes on where it was.
    """
    import gc
    import secrets
    import socket
    import webbrowser
    from contextlib import suppress

    import numpy as np

    from poolsieve.files import check_writable
    from poolsieve.images.locations import is_remote
    from poolsieve.review import review_app
    from poolsieve.review.finished_run import open_run, store_path, write_decisions

    import uvicorn  # isort: skip - after the import that says what to install

    judged = _judged(verdicts, images)
    # Decisions on a run in an object store are kept in the present folder.
    beside = Path(Path(verdicts).name) if is_remote(verdicts) else Path(verdicts)
    target = check_writable(out or beside.with_name("decisions.csv"))
    place = store or store_path(beside)
    opened, loaded = open_run(judged, place, rate=sample, rng=np.random.default_rng())
    with opened as kept:
        if loaded is None:
            typer.echo(f"going on with {place}: {sum(kept.tasks.counts().values()):,} images left to review")
        else:
            typer.echo(f"{loaded.tasks:,} images to review")
            if loaded.missing:
                typer.echo(f"{loaded.missing:,} of them are not there as they were judged: no picture")
        write_decisions(kept, target)
        secret = secrets.token_urlsafe(16)
        app = review_app(kept, entrance=secret, decided=lambda: write_decisions(kept, target))
        with socket.create_server(("127.0.0.1", port)) as listening:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/enter/{secret}"
            typer.echo(f"open {address}")
            typer.echo(f"decisions go to {target}; Ctrl-C ends")
            if open_browser:
                webbrowser.open(address)
            gc.collect()
            gc.freeze()  # what is loaded stays, and need not be gone through while a page is waited for
            config = uvicorn.Config(app, log_level="error", lifespan="off")
            with suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[listening])
        typer.echo(f"{write_decisions(kept, target):,} decisions in {target}")


def _judged(verdicts: str, images: str | None) -> Judged:
    from poolsieve.distributed import RunFolder
    from poolsieve.images.locations import is_remote
    from poolsieve.review.finished_run import Judged

    if not is_remote(verdicts) and not Path(verdicts).exists():
        raise ValueError(
            f"there is no {verdicts}; give the table that `poolsieve moderate --out` wrote and "
            "its images (poolsieve review verdicts.csv photos/), or the folder of a finished run in parts"
        )
    if not is_remote(verdicts) and not Path(verdicts).is_dir():
        if images is None:
            raise ValueError(
                f"{verdicts} is a table; name its images too: poolsieve review {verdicts} photos/"
            )
        return Judged.by_table(Path(verdicts), images)
    folder = RunFolder(verdicts)
    folder.needed_settings()
    if images is not None:
        raise ValueError(f"{verdicts} is a run in parts and knows its images; leave out {images}")
    if not folder.finished:
        raise ValueError(f"{verdicts} is not finished; go on with it first, by the command that began it")
    return Judged(verdicts, folder.digest(), folder.verdicts, folder.items)
