"""`poolsieve bundles`: list, show, verify, export and record bundles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from poolsieve.cli.shared_options import (
    BundleArgument,
    ClearFolders,
    EngineName,
    FlaggedFolders,
    LabelledImages,
    Threads,
)

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.bundles.config import BundleConfig

app = typer.Typer(
    no_args_is_help=True,
    help="Bundles: trained networks in folders that can be checked, moved and run without torch.",
)


@app.command("list")
def list_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Also list the bundles directly in these folders.", show_default=False),
    ] = None,
) -> None:
    """List the bundles that come with poolsieve, and those in other folders."""
    from poolsieve.bundles import list_bundles, read_config

    found = list_bundles(folders or [])
    if not found:
        typer.echo("no bundles; make one with: poolsieve bundles export RUN OUT")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("bundle", "task", "backbone", "pools", "MB"):
        table.add_column(column, justify="right" if column == "MB" else "left", overflow="fold")
    broken = []
    for path in found:
        try:
            config = read_config(path)
            size = _bytes(path, config)
        except ValueError as error:
            broken.append(str(error))
            continue
        pools = ", ".join(map(str, config.pool_sizes))
        table.add_row(_location(path), config.task, config.backbone, pools, f"{size / 1e6:.1f}")
    if table.row_count:
        Console(highlight=False).print(table)
    if broken:
        raise ValueError("; ".join(broken))


@app.command()
def show(
    bundle: BundleArgument,
    card: Annotated[
        bool, typer.Option("--card", help="Print the model card: data, results, weaknesses, use and misuse.")
    ] = False,
) -> None:
    """Check a bundle and say what it holds."""
    from poolsieve.bundles import load_bundle
    from poolsieve.bundles.config import CARD_FILE

    loaded = load_bundle(bundle)
    if card:
        typer.echo(loaded.read(CARD_FILE).decode())
        return
    _print_description(loaded)


@app.command()
def verify(
    bundles: Annotated[
        list[str], typer.Argument(help="Folders of bundles, or names of those that come with poolsieve.")
    ],
    run: Annotated[
        bool, typer.Option("--run", help="Also run it on every installed engine and compare the outputs.")
    ] = False,
) -> None:
    """Check every file of bundles: hashes, shapes, versions, weights, calibration."""
    from poolsieve.bundles import load_bundle, verify_bundle
    from poolsieve.engines import compare_engines
    from poolsieve.planning.table import plan_problems

    problems = []
    for bundle in bundles:
        found = verify_bundle(bundle)
        if not found:
            loaded = load_bundle(bundle)
            editions = {f"{bundle}/{name}": loaded.edition(name) for name in loaded.config.editions}
            for name, part in {bundle: loaded, **editions}.items():
                found += plan_problems(part)
                if run and not found:
                    comparison = compare_engines(part)
                    typer.echo(f"{name}: {comparison}")
                    found += [f"{name}: {line}" for line in comparison.problems()]
        if not found:
            typer.echo(f"{bundle}: whole")
        problems += found
    if problems:
        error = ValueError(problems[0])
        for line in problems[1:]:
            error.add_note(line)
        raise error


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished training run.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Folder of the bundle; must be new.", show_default=False)],
    precision: Annotated[
        Literal["fp32", "fp16"],
        typer.Option(help="How weights are stored. fp16 halves the files; networks still compute in fp32."),
    ] = "fp32",
    weights: Annotated[
        bool,
        typer.Option(
            help="Put in the weights, to go on training with and for the torch engine; doubles the size."
        ),
    ] = True,
    notes: Annotated[
        Path | None,
        typer.Option(help="Markdown file for the model card: sources of the data, weaknesses, licence."),
    ] = None,
) -> None:
    """Make a bundle of a training run (needs the extra `train`)."""
    from poolsieve.export import export_run

    text = "" if notes is None else notes.read_text()
    _print_description(export_run(run, out, precision=precision, weights=weights, notes=text))


@app.command()
def record(
    bundle: BundleArgument,
    data: LabelledImages,
    split: Annotated[
        Literal["val", "test", "train"],
        typer.Option(help="Part of the data; not one that the networks were trained on."),
    ] = "val",
    engine: EngineName = "auto",
    threads: Threads = None,
    seed: Annotated[int, typer.Option(help="Decides which pools are drawn.")] = 0,
    flagged: FlaggedFolders = None,
    clear: ClearFolders = None,
    on: Annotated[
        Literal["ray"] | None,
        typer.Option(help="Run the networks on a Ray cluster, which reaches the bundle under this name."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="--on ray: actors.")] = None,
    ray_address: Annotated[str | None, typer.Option(help="--on ray: the cluster, as in `moderate`.")] = None,
    cpus_per_worker: Annotated[float, typer.Option(help="--on ray: processors of an actor.")] = 1.0,
    gpus_per_worker: Annotated[float, typer.Option(help="--on ray: GPUs of an actor.")] = 0.0,
) -> None:
    """Run a bundle on labelled images and keep what it says, so that `poolsieve plan` can plan with it.

    The editions that it holds are run, too.
    """
    from contextlib import closing, nullcontext

    from poolsieve.bundles import find_bundle, load_bundle, read_config
    from poolsieve.export.recording import record_bundle

    folder = find_bundle(bundle)
    for place in (folder, *(folder / edition for edition in read_config(folder).editions)):
        networks: Any = nullcontext()
        if on == "ray":
            from poolsieve.distributed.ray_networks import RayNetworks
            from poolsieve.distributed.ray_workers import RayResources

            resources = RayResources(ray_address, cpus_per_worker, gpus_per_worker)
            networks = closing(RayNetworks(str(place.absolute()), engine, workers, threads, resources))
        with networks as opened:
            record_bundle(
                place,
                data,
                split=split,
                engine=engine,
                threads=threads,
                seed=seed,
                flagged=flagged or (),
                clear=clear or (),
                networks=opened,
            )
    _print_description(load_bundle(folder))


@app.command()
def join(
    whole: Annotated[
        str, typer.Argument(help="Bundle whose individual network tests images.", show_default=False)
    ],
    small: Annotated[
        str,
        typer.Argument(
            help="Bundle of the same task whose looks and pools come first, such as one trained with "
            "--shrink 2.",
            show_default=False,
        ),
    ],
    data: LabelledImages,
    out: Annotated[Path, typer.Option(help="Folder of the new bundle; must be new.", show_default=False)],
    notes: Annotated[
        Path | None,
        typer.Option(help="Markdown file for the model card: sources of the data, weaknesses, licence."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides which pools are drawn.")] = 0,
    flagged: FlaggedFolders = None,
    clear: ClearFolders = None,
) -> None:
    """Put the looks and pools of one bundle before the tests of another (needs the extra `train`).

    Where the small one looks at half the height and width, a look or a pool costs about a quarter.
    """
    from poolsieve.export.joining import join_bundles

    text = "" if notes is None else notes.read_text()
    joined = join_bundles(
        *(whole, small, data, out), notes=text, seed=seed, flagged=flagged or (), clear=clear or ()
    )
    _print_description(joined)


@app.command()
def quantise(
    bundle: BundleArgument,
    data: LabelledImages,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the new bundle; must be new. Without it, the bundle holds the new one as its "
            "int8 edition, which `moderate` and `serve` take where the processor gains by it."
        ),
    ] = None,
    images: Annotated[
        int, typer.Option(help="Training images that show how large numbers get; half are bad.", min=2)
    ] = 200,
    seed: Annotated[int, typer.Option(help="Decides which images and pools are drawn.")] = 0,
    flagged: FlaggedFolders = None,
    clear: ClearFolders = None,
) -> None:
    """Make a bundle whose networks compute in int8 (needs the extras `train` and `onnxruntime`).

    It is calibrated, recorded and planned anew; if a network then sees less, it says so and makes none.
    """
    from poolsieve.export.quantising import quantise_bundle

    made = quantise_bundle(
        bundle, data, out, images=images, seed=seed, flagged=flagged or (), clear=clear or ()
    )
    _print_description(made)


@app.command()
def replan(bundle: BundleArgument) -> None:
    """Make a bundle's plans anew from its recordings, as after an update that changed how plans are made.

    The plans of editions that it holds are made anew, too.
    """
    from poolsieve.export.recording import replan_bundle

    _print_description(replan_bundle(bundle))


def _bytes(folder: Path, config: BundleConfig) -> int:
    """Size of a bundle's files, with those of its editions."""
    from poolsieve.bundles import read_config

    own = sum(record.bytes for record in config.files.values())
    return own + sum(_bytes(folder / name, read_config(folder / name)) for name in config.editions)


def _location(path: Path) -> str:
    from poolsieve.bundles.loading import SHIPPED

    return path.name if path.parent == SHIPPED else str(path)


def _print_description(bundle: Bundle) -> None:
    for name, value in _description(bundle):
        typer.echo(f"{name + ':':<15}{value}")


def _description(bundle: Bundle) -> list[tuple[str, str]]:
    config, calibration = bundle.config, bundle.calibration
    cost = config.cost
    one_network = ", counted by one network" if config.counting == "shared" else ""
    lines = [
        ("bundle", str(bundle.path)),
        ("hash", bundle.hash),
        ("task", f"{config.task} ({config.kind})"),
        ("backbone", f"{config.backbone} at {config.input_size // config.shrink} px, cut after {config.cut}"),
        ("features", f"{' × '.join(map(str, config.feature_shape))}, merged by {config.merge} maximum"),
        ("pool sizes", ", ".join(map(str, config.pool_sizes)) + one_network),
        (
            "cost",
            f"{cost.whole / 1e6:.1f} million multiply-adds for one test, front {cost.front_share:.3f}, "
            f"gate with head {cost.gate_share:.3f} of it",
        ),
        (
            "individual",
            f"AUC {calibration.individual_roc.auc:.4f} on validation data"
            + (f", with a front of its own at {config.input_size} px" if config.joined else ""),
        ),
    ]
    if calibration.head_roc is not None:
        lines.append(("cheap head", f"AUC {calibration.head_roc.auc:.4f} on validation data"))
    if calibration.glance_roc is not None:
        share = f"{cost.glance_share:.3f} of the cost of one test"
        lines.append(("glance", f"AUC {calibration.glance_roc.auc:.4f} on validation data, {share}"))
    for pool_size, part in calibration.counting.items():
        total = sum(map(sum, part.confusion))
        exact = sum(row[k] for k, row in enumerate(part.confusion))
        lines.append((f"pools of {pool_size}", f"{exact} of {total} validation pools counted exactly"))
    recorded = "none; make them with: poolsieve bundles record BUNDLE DATA"
    if bundle.has_recordings:
        recordings = bundle.recordings()
        bad = int(recordings.bad.sum())
        recorded = f"{bad} bad and {len(recordings.bad) - bad} clear images, to plan from"
    return [
        *lines,
        ("recordings", recorded),
        ("model card", f"poolsieve bundles show {_location(bundle.path)} --card"),
        *[("edition", f"{name}: poolsieve bundles show {bundle.path / name}") for name in config.editions],
        ("files", f"{_bytes(bundle.path, config) / 1e6:.1f} MB, weights {config.precision}"),
        ("made by", ", ".join(f"{name} {version}" for name, version in config.versions.items())),
    ]
