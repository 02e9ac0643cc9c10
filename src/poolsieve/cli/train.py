"""`poolsieve train`: from labelled images to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from poolsieve.cli.setting_options import given_settings, setting_options, with_setting_options
from poolsieve.cli.shared_options import ClearFolders, FlaggedFolders, folder_options
from poolsieve.training.recipes import make_settings
from poolsieve.training.settings import FIRST_LOOK

SOME_FAILED = 1
"""Exit status of a run that ended but left out images that could not be read."""


@with_setting_options
def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder with the folders flagged (or bad, 1) and clear (or ordinary, 0), or train, val "
            "and test with these in each; or a CSV file with the columns file,label,split. Without splits, "
            "images are split 70/15/15 % by the hash of their content. Its name becomes that of the task. "
            "In an object store (s3://…) it is copied once, to ~/.cache/poolsieve or --cache-dir.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the run. An interrupted run with the same settings goes on.",
            show_default=False,
        ),
    ],
    flagged: FlaggedFolders = None,
    clear: ClearFolders = None,
    task: Annotated[
        Literal["classification", "outlier"],
        typer.Option(
            help="classification: flag images like those labelled 1. outlier: flag images unlike those "
            "labelled 0, of whatever kind; those labelled 1 are known examples of what is off topic."
        ),
    ] = "classification",
    recipe: Annotated[
        Literal["default", "paper"],
        typer.Option(
            help="default: frozen front with cached features, one-cycle schedule, gated merging. paper: SGD "
            "on the whole network for 90 epochs, plain maximum. Other options change single settings of it."
        ),
    ] = "default",
    glance: Annotated[
        bool,
        typer.Option(
            "--glance",
            rich_help_panel=FIRST_LOOK,
            help="Train a small network too that looks at images of half the size first, for the scheme "
            "glance: often the cheapest way to moderate.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse data with an unreadable image rather than leave it out.")
    ] = False,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of cached features, shared between runs. \\[default: OUT/cache]"),
    ] = None,
    **given: Any,
) -> None:
    """Train the individual and counting networks of a bundle on one shared front.

    Killing it at any moment loses at most one epoch: the same command goes on from there.

    Exit status: 0 done, 1 done but unreadable images were left out, 2 could not run.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("training needs torch: pip install 'poolsieve[train]'") from error

    from poolsieve.images.dataset_fetching import fetch_dataset
    from poolsieve.images.locations import is_remote
    from poolsieve.progress import Reporter
    from poolsieve.training.run import train as run_training

    changes = given_settings(given)
    switches = {"outliers": ("--task outlier", task == "outlier"), "glance": ("--glance", glance)}
    for part, (switch, wanted) in switches.items():
        if wanted:
            changes.setdefault(part, {})
        elif part in changes:
            given_here = [option for option in setting_options() if option.part == part]
            names = [option.name for option in given_here if option.field.name in changes[part]]
            raise ValueError(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} for {switch}")
    results = run_training(
        fetch_dataset(data, cache_dir) if is_remote(data) else Path(data),
        out,
        make_settings(recipe, **changes),
        cache_dir=cache_dir or out / "cache",
        strict=strict,
        flagged=flagged or (),
        clear=clear or (),
        reporter=Reporter(),
    )
    typer.echo(
        f"done; make a bundle of it: poolsieve bundles export {out} MY-BUNDLE\n"
        f"then let it plan: poolsieve bundles record MY-BUNDLE {data}{folder_options(flagged, clear)}",
        err=True,
    )
    if results["unreadable_images"]:
        raise typer.Exit(SOME_FAILED)
