"""`poolsieve store`: migrate, verify, export and purge what the service and the review page keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from poolsieve.store import Store

app = typer.Typer(
    no_args_is_help=True, help="The store of `serve` and `review`: SQLite, or PostgreSQL by its URL."
)

UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="sqlite:///FILE, the file alone, or postgresql://USER:PASSWORD@HOST/DATABASE."
    ),
]
_DEFAULT_URL = "sqlite:///poolsieve-data/poolsieve.sqlite"


@app.command("migrate")
def migrate_command(url: UrlArgument = _DEFAULT_URL) -> None:
    """Bring a store to the schema of this version; a new one is made."""
    from poolsieve.store import migrate
    from poolsieve.store.database import Database

    database = Database(url)
    try:
        typer.echo(f"{database.url.render_as_string()}: revision {migrate(database)}")
    finally:
        database.close()


@app.command()
def verify(
    url: UrlArgument = _DEFAULT_URL,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER:HASH", help="A head that was printed before; its entry must still be there."
        ),
    ] = None,
) -> None:
    """Check that no entry of the audit log was changed or removed; prints its head, to be kept elsewhere."""
    kept = None
    if head is not None:
        number, _, digest = head.partition(":")
        if not number.isdigit() or len(digest) != 64:
            raise ValueError(f"--head {head}: give it as it was printed, a number, a colon and 64 digits")
        kept = int(number), digest
    with _existing(url) as store:
        state = store.audit.verify(head=kept)
    if not state.whole:
        error = ValueError(f"the audit log is not as it was written: {state.problems[0]}")
        for problem in state.problems[1:]:
            error.add_note(problem)
        raise error
    typer.echo(f"whole: {state.count:,} entries, head {state.count}:{state.head}")


@app.command()
def export(
    out: Annotated[
        Path, typer.Argument(help="A file of JSON lines, or a CSV by its ending.", show_default=False)
    ],
    url: UrlArgument = _DEFAULT_URL,
    table: Annotated[
        str, typer.Option(help="What to export: verdicts, decisions, audit, chunks, jobs or settings.")
    ] = "verdicts",
) -> None:
    """Write a table of the store to a file; thumbnails, keys and passwords are never exported."""
    from poolsieve.store.exporting import export_table

    with _existing(url) as store:
        typer.echo(f"{out}: {export_table(store, table, out):,} rows")


@app.command()
def purge(url: UrlArgument = _DEFAULT_URL) -> None:
    """Remove pictures that have expired; the service does so by itself."""
    with _existing(url) as store:
        typer.echo(f"{store.images.purge():,} pictures removed")


def _existing(url: str) -> Store:
    """A store that is there: these commands do not make one."""
    from poolsieve.store import Store, database_url

    named = database_url(url)
    if named.get_backend_name() == "sqlite" and not Path(str(named.database)).exists():
        raise ValueError(f"there is no store {named.database}; `poolsieve store migrate` makes one")
    return Store(url)
