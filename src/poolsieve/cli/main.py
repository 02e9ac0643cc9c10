"""The `poolsieve` command and its exit status.

0 done, 1 done but some images could not be read, 2 could not run, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Annotated

import typer
from rich.console import Console

from poolsieve._version import __version__
from poolsieve.cli.bundles import app as bundles
from poolsieve.cli.command import Command
from poolsieve.cli.design import design
from poolsieve.cli.evaluate import evaluate
from poolsieve.cli.moderate import moderate
from poolsieve.cli.plan import plan
from poolsieve.cli.report import report
from poolsieve.cli.review import review
from poolsieve.cli.saying import say
from poolsieve.cli.scheme_options import SchemeCommand, SchemeNameCommand
from poolsieve.cli.serve import serve
from poolsieve.cli.simulate import simulate
from poolsieve.cli.store import app as store
from poolsieve.cli.train import train

CANNOT_RUN = 2
TRACEBACK = "POOLSIEVE_TRACEBACK"
"""Environment variable that has errors shown with the place in the program."""

app = typer.Typer(
    name="poolsieve",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Pooled image moderation: test many images at once, find the few bad ones.",
    epilog="Exit status: 0 done, 1 some images failed, 2 could not run, 130 stopped by Ctrl-C.",
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


app.command("design", cls=Command)(design)
app.command("simulate", cls=Command)(simulate)
app.command("train", cls=Command)(train)
app.command("moderate", cls=SchemeCommand)(moderate)
app.command("report", cls=Command)(report)
app.command("plan", cls=Command)(plan)
app.command("serve", cls=SchemeNameCommand)(serve)
app.command("evaluate", cls=Command)(evaluate)
app.command("review", cls=Command)(review)
app.add_typer(bundles, name="bundles")
app.add_typer(store, name="store")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; leaves the process with the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # names are printed whatever letters the terminal knows
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(arguments, prog_name="poolsieve")
    except Exception as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        else:
            _tell(error)
        sys.exit(CANNOT_RUN)


def _tell(error: Exception) -> None:
    """Say what went wrong, and what was noted on the way out of what to do."""
    console = Console(stderr=True)
    console.print("error:", style="bold red", end=" ")
    # What a user can mend comes as one of these, with a message that says how.
    expected = isinstance(error, ValueError | OSError | ImportError | MemoryError)
    message = str(error) or ("out of memory" if isinstance(error, MemoryError) else "no more is known")
    lines = [message if expected else f"unexpected {type(error).__name__}: {message}"]
    lines += getattr(error, "__notes__", [])
    if not expected:
        lines.append(f"this should not happen; set {TRACEBACK}=1 to see where it did, and please report it")
    for line in lines:
        say(console, line)
