"""`poolsieve train`: from labelled images to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from poolsieve.cli.class_folders import ClearFolders, FlaggedFolders, folder_options

SOME_FAILED = 1
"""Exit status of a run that ended but left out images that could not be read."""


def train(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder with the folders flagged (or bad, 1) and clear (or ordinary, 0), or train, val "
            "and test with these in each; or a CSV file with the columns file,label,split. Without splits, "
            "images are split 70/15/15 % by the hash of their content. Its name becomes that of the task.",
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
    backbone: Annotated[str, typer.Option(help="Name of the backbone.")] = "efficientnet-lite0",
    cut: Annotated[
        str | None, typer.Option(help="Cut point between front and back; by default the backbone's own.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="File of pretrained weights in place of those of the backbone.")
    ] = None,
    pool_size: Annotated[
        list[int] | None, typer.Option(help="Images in a pool; may be given several times. \\[default: 8]")
    ] = None,
    counting: Annotated[
        Literal["shared", "separate"] | None,
        typer.Option(
            help="With several pool sizes. shared: one network counts in pools of every size; separate: one "
            "network for each size. \\[default: shared; separate with --recipe paper]"
        ),
    ] = None,
    merge: Annotated[
        Literal["gated", "max"] | None,
        typer.Option(
            help="gated: a learnt gate before the maximum; max: the paper's plain maximum. "
            "\\[default: gated; max with --recipe paper]"
        ),
    ] = None,
    front: Annotated[
        Literal["frozen", "whole"] | None,
        typer.Option(
            help="frozen: keep the pretrained front; whole: train all of it, as the paper does. "
            "\\[default: frozen; whole with --recipe paper]"
        ),
    ] = None,
    tune_from: Annotated[
        str | None,
        typer.Option(
            help="Train the blocks of the front after this cut point, such as block3; features up to it are "
            "cached. A wrong name is answered with all of them."
        ),
    ] = None,
    front_learns_from: Annotated[
        Literal["images", "pools"] | None,
        typer.Option(
            help="images: a front that learns does so on single images, with the individual network and the "
            "cheap head; pools: on pools, with all networks. \\[default: images; pools with --recipe paper]"
        ),
    ] = None,
    front_epochs: Annotated[
        int | None, typer.Option(help="Epochs of a front that learns. \\[default: 6; 90 with --recipe paper]")
    ] = None,
    gate_width: Annotated[int | None, typer.Option(help="Channels inside the gate. \\[default: 64]")] = None,
    tallies: Annotated[
        bool | None,
        typer.Option(
            "--tallies/--no-tallies",
            help="Let the counting networks hear from the gate how many images of a pool look bad. "
            "\\[default: no-tallies]",
        ),
    ] = None,
    clean_share: Annotated[
        float | None,
        typer.Option(
            help="Least share of clean validation pools that are to be read as 0, such as 0.95; the bias of "
            "count 0 is raised if need be. \\[default: as it is learnt]"
        ),
    ] = None,
    individual_epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of the individual network. \\[default: 4; with --recipe paper it learns with the "
            "front]"
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of each counting network. \\[default: 20; with --recipe paper it learns with the "
            "front]"
        ),
    ] = None,
    pools_per_epoch: Annotated[
        int | None,
        typer.Option(help="Training pools of one epoch. \\[default: 4000; 6248 with --recipe paper]"),
    ] = None,
    batch_pools: Annotated[
        int | None,
        typer.Option(
            help="Pools in a step; fewer need less memory where the front learns. \\[default: 32; 8 with "
            "--recipe paper]"
        ),
    ] = None,
    batch_images: Annotated[
        int | None, typer.Option(help="Images in a step of the individual network. \\[default: 32]")
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Shares of training pools with 0, 1, ... r bad images, for the largest pool size; give it "
            "r + 1 times. \\[default: the paper's 40, 24, 12, 6, 6, 3, 3, 3, 3 %]"
        ),
    ] = None,
    head_weight: Annotated[
        float | None,
        typer.Option(help="Weight of the cheap head's loss beside that of the count. \\[default: 0.5]"),
    ] = None,
    count_smoothing: Annotated[
        float | None,
        typer.Option(help="Share of a count's target that goes to its two neighbours. \\[default: 0]"),
    ] = None,
    prevalence: Annotated[
        float | None, typer.Option(help="Prevalence by which the best epoch is selected. \\[default: 0.1]")
    ] = None,
    select_by: Annotated[
        Literal["accuracy", "likelihood"] | None,
        typer.Option(
            help="What selects the best epoch on validation pools: the paper's weighted accuracy, or the "
            "weighted log-likelihood of the true counts, which suits tasks that are hard to count. "
            "\\[default: accuracy]"
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate (its peak, if one-cycle). \\[default: 0.001]")
    ] = None,
    views: Annotated[
        int | None,
        typer.Option(help="Cached views of each training image, the plain one included. \\[default: 6]"),
    ] = None,
    fresh_views: Annotated[
        int | None,
        typer.Option(
            help="Views of each training image drawn anew for every epoch of the counting networks, in place "
            "of the cached ones: against learning by heart, for a pass through the front each. [default: 0]"
        ),
    ] = None,
    stretch: Annotated[
        bool | None,
        typer.Option(
            "--stretch/--pad",
            help="Stretch images to squares, or pad them with zeros. \\[default: stretch if all training "
            "images are squares already, else pad]",
        ),
    ] = None,
    rotate_test: Annotated[
        bool, typer.Option("--rotate-test", help="Rotate validation and test images at random too.")
    ] = False,
    validation_pools: Annotated[
        int | None, typer.Option(help="Fixed pools that select the best epoch. \\[default: 1000]")
    ] = None,
    test_pools: Annotated[
        int | None, typer.Option(help="Pools of the test split to report on. \\[default: 4000]")
    ] = None,
    glance: Annotated[
        bool,
        typer.Option(
            "--glance",
            help="Train a small network too that looks at images of half the size first, for the scheme "
            "glance: often the cheapest way to moderate.",
        ),
    ] = False,
    glance_epochs: Annotated[int | None, typer.Option(help="Epochs of the glance. \\[default: 8]")] = None,
    glance_stop: Annotated[
        str | None,
        typer.Option(
            help="The glance is the backbone up to this cut point, such as block13. \\[default: all of it]"
        ),
    ] = None,
    compile_steps: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Let torch compile the steps: a minute for each network, then up to twice as fast. Needs a "
            "C++ compiler.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    reading: Annotated[
        Literal["combined", "density"] | None,
        typer.Option(
            help="With --task outlier: density is the paper's; combined also weighs the networks' own "
            "outputs. \\[default: combined; density with --recipe paper]"
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse data with an unreadable image rather than leave it out.")
    ] = False,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of cached features, shared between runs. \\[default: OUT/cache]"),
    ] = None,
) -> None:
    """Train the individual and counting networks of a bundle on one shared front.

    Killing it at any moment loses at most one epoch: the same command goes on from there.

    Exit status: 0 done, 1 done but unreadable images were left out, 2 could not run.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("training needs torch: pip install 'poolsieve[train]'") from error
    from dataclasses import replace

    from poolsieve.progress import Reporter
    from poolsieve.training.plan import GlanceSettings, OutlierSettings, make_plan
    from poolsieve.training.run import train as run_training

    if tune_from and front:
        raise ValueError("--tune-from trains the last blocks of the front; leave --front out")
    given: dict[str, Any] = {
        "backbone": backbone,
        "cut": cut,
        "weights": None if weights is None else str(weights),
        "pool_sizes": tuple(pool_size) if pool_size else None,
        "counting": counting,
        "merge": merge,
        "front": "tuned" if tune_from else front,
        "tune_from": tune_from,
        "front_learns_from": front_learns_from,
        "front_epochs": front_epochs,
        "gate_width": gate_width,
        "tallies": tallies,
        "clean_share": clean_share,
        "individual_epochs": individual_epochs,
        "epochs": epochs,
        "pools_per_epoch": pools_per_epoch,
        "batch_pools": batch_pools,
        "batch_images": batch_images,
        "shares": tuple(share) if share else None,
        "head_weight": head_weight,
        "count_smoothing": count_smoothing,
        "prevalence": prevalence,
        "select_by": select_by,
        "views": views,
        "fresh_views": fresh_views,
        "squaring": None if stretch is None else "stretch" if stretch else "pad",
        "rotate_test": rotate_test,
        "validation_pools": validation_pools,
        "test_pools": test_pools,
        "compile": compile_steps,
        "seed": seed,
    }
    if task == "outlier":
        given["outliers"] = OutlierSettings(
            reading=reading or ("density" if recipe == "paper" else "combined")
        )
    elif reading is not None:
        raise ValueError("--reading is for --task outlier")
    if glance:
        asked = {"epochs": glance_epochs, "stop": glance_stop}
        given["glance"] = GlanceSettings(
            **{name: value for name, value in asked.items() if value is not None}  # type: ignore[arg-type]
        )
    elif glance_epochs is not None or glance_stop is not None:
        raise ValueError("--glance-epochs and --glance-stop are for --glance")
    plan = make_plan(recipe, **{name: value for name, value in given.items() if value is not None})
    if learning_rate is not None:
        plan = replace(plan, optimization=replace(plan.optimization, learning_rate=learning_rate))
    results = run_training(
        data,
        out,
        plan,
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
