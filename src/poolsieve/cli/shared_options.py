"""Arguments and options that several commands have."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

BundleArgument = Annotated[
    str,
    typer.Argument(help="Folder of a bundle, or name of one that comes with poolsieve.", show_default=False),
]


def labelled_images(name: str) -> Path:
    """A data set on disk: where it is, or the copy of one in an object store."""
    if "://" not in name:
        return Path(name)
    from poolsieve.images.dataset_fetching import fetch_dataset

    return fetch_dataset(name)


LabelledImages = Annotated[
    Path,
    typer.Argument(
        parser=labelled_images,
        metavar="DATA",
        help="Labelled images: a folder \\[split/]class/images, or a CSV file,label\\[,split]; in an object "
        "store (s3://…) too, from which it is copied once.",
        show_default=False,
    ),
]
EngineName = Annotated[
    Literal["auto", "openvino", "onnxruntime", "torch"], typer.Option(help="What runs the networks.")
]
Threads = Annotated[int | None, typer.Option(help="Threads that the networks run on.")]
RunSeed = Annotated[int, typer.Option(min=0, help="Makes the run repeatable.")]
Prevalences = Annotated[
    list[float] | None,
    typer.Option("--prevalence", "-p", help="Share of bad images; repeat. Default: the paper's nine."),
]
AnyMatrix = Annotated[
    bool, typer.Option("--any-matrix", help="Also take a design file that is not balanced or overlaps more.")
]
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
