"""The `poolsieve` command and its exit status: 0 done, 1 some images failed, 2 could not run."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console

from poolsieve._version import __version__
from poolsieve.cli.bundles import app as bundles
from poolsieve.cli.design import design
from poolsieve.cli.evaluate import evaluate
from poolsieve.cli.moderate import moderate
from poolsieve.cli.plan import plan
from poolsieve.cli.simulate import simulate
from poolsieve.cli.train import train
from poolsieve.shown_text import shown

CANNOT_RUN = 2

app = typer.Typer(
    name="poolsieve",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Pooled image moderation: test many images at once, find the few bad ones.",
    epilog="Exit status: 0 done, 1 some images failed, 2 could not run.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"poolsieve {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and leave.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


app.command("design")(design)
app.command("simulate")(simulate)
app.command("train")(train)
app.command("moderate")(moderate)
app.command("plan")(plan)
app.command("evaluate")(evaluate)
app.add_typer(bundles, name="bundles")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; leaves the process with the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # names are printed whatever letters the terminal knows
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="poolsieve")
    except (ValueError, OSError, ImportError, MemoryError) as error:
        # What a user can mend comes as one of these, with a message that says how.
        console = Console(stderr=True)
        console.print("error:", style="bold red", end=" ")
        message = str(error) or "out of memory"
        console.print(shown(message), markup=False, highlight=False)
        sys.exit(CANNOT_RUN)
