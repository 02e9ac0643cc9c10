"""The options that name class folders, the same wherever labelled images are read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

FlaggedFolders = Annotated[
    list[str] | None,
    typer.Option(
        "--flagged",
        help="Name of a class folder whose images are to be flagged, such as knife; may be given several "
        "times. \\[default: flagged, bad or 1]",
    ),
]
ClearFolders = Annotated[
    list[str] | None,
    typer.Option(
        "--clear",
        help="Name of a class folder of ordinary images; may be given several times. \\[default: clear, "
        "ordinary or 0]",
    ),
]


def folder_options(flagged: Sequence[str] | None, clear: Sequence[str] | None) -> str:
    """The same options for a command that is to be typed next."""
    words = [("--flagged", name) for name in flagged or ()] + [("--clear", name) for name in clear or ()]
    return "".join(f" {option} {shlex.quote(name)}" for option, name in words)
