"""`poolsieve design`: make or read a pooling design, and say what it can do."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from poolsieve.cli.saying import say
from poolsieve.cli.shared_options import AnyMatrix

if TYPE_CHECKING:
    from poolsieve.designs import Pooling

_PICTURE_WIDTH = 60


Kind = Literal["balanced", "disjoint", "grid", "random", "doubly-regular"]


def design(
    images: Annotated[
        int | None, typer.Option("--images", "-n", help="Number of images n in a chunk.")
    ] = None,
    pool_size: Annotated[int | None, typer.Option("--pool-size", "-r", help="Images in a pool, r.")] = None,
    pools_per_image: Annotated[
        int | None, typer.Option("--pools-per-image", "-c", help="Pools that every image is in, c.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same design, another seed another one.")
    ] = 0,
    kind: Annotated[
        Kind,
        typer.Option(
            help="balanced: equal pools, any two sharing at most one image. disjoint: each image in one "
            "pool. grid: rows and columns of a grid. random: every image in every pool with some "
            "probability. doubly-regular: like balanced, but pools may share any number of images."
        ),
    ] = "balanced",
    rows: Annotated[int | None, typer.Option(help="Rows of a grid (--kind grid).")] = None,
    columns: Annotated[int | None, typer.Option(help="Columns of a grid (--kind grid).")] = None,
    pools: Annotated[int | None, typer.Option(help="Number of pools m (--kind random).")] = None,
    probability: Annotated[
        float | None, typer.Option(help="Chance that an image is in a pool (--kind random).")
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(
            help="Check and describe the design in this file instead of making one: .npz, or a text matrix "
            "of 0 and 1 with one line per pool."
        ),
    ] = None,
    any_matrix: AnyMatrix = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the design: .npz compact, any other ending a text matrix of 0 and 1."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the matrix into this file: .png, .pdf or .svg (needs matplotlib)."),
    ] = None,
    bad: Annotated[
        int | None,
        typer.Option(
            "--bad",
            "-k",
            help="Number of bad images for the bounds; by default what the design is sure to find.",
        ),
    ] = None,
    picture: Annotated[
        bool, typer.Option("--picture/--no-picture", help="Show the matrix in the terminal.")
    ] = True,
) -> None:
    """Make a pooling design, or read one, and say what it can do.

    For instance the paper's matrix of 50 pools × 100 images:

        poolsieve design --images 100 --pool-size 8 --pools-per-image 4 --out design.npz
    """
    from rich.console import Console
    from rich.table import Table

    from poolsieve.designs import describe, plot_design, render_text
    from poolsieve.figures import check_figure_path, save_figure

    if figure is not None:
        check_figure_path(figure)
    sizes = {"images": images, "pool_size": pool_size, "pools_per_image": pools_per_image}
    sizes |= {"rows": rows, "columns": columns, "pools": pools}
    given = {name: one for name, one in {**sizes, "probability": probability}.items() if one is not None}
    if load is not None and given:
        raise ValueError(f"--load describes the design in a file, so it takes no {_options(given)}")
    scheme = _make(kind, given, seed) if load is None else load_design(load, any_matrix)
    description = describe(scheme, bad)

    console = Console()
    table = Table(title=f"{type(scheme).__name__} {scheme.fingerprint[:12]}", show_header=False)
    table.add_column("property")
    table.add_column("value", overflow="fold")
    for name, value in description.rows():
        table.add_row(name, value)
    console.print(table, highlight=False)
    if picture:
        console.print(render_text(scheme, min(_PICTURE_WIDTH, console.width)), highlight=False, markup=False)
    written = [] if out is None else [scheme.save(out)]
    if figure is not None:
        drawn = plot_design(scheme).get_figure(root=True)
        assert drawn is not None
        written.append(save_figure(drawn, figure))
    for path in written:
        say(console, f"wrote {path}")


def _make(kind: Kind, given: dict[str, int | float], seed: int) -> Pooling:
    from poolsieve import designs

    make = getattr(designs, "doubly_regular" if kind == "doubly-regular" else f"{kind}_design")
    taken = signature(make).parameters
    needed = [name for name in taken if name != "seed"]
    missing = [name for name in needed if name not in given]
    if missing:
        raise ValueError(f"--kind {kind} needs {_options(missing)}")
    surplus = [name for name in given if name not in needed]
    if surplus:
        raise ValueError(f"--kind {kind} takes no {_options(surplus)}, only {_options(needed)}")
    design: Pooling = make(**given, **({"seed": seed} if "seed" in taken else {}))
    return design


def load_design(path: Path, any_matrix: bool) -> Pooling:
    """The design in a file, which must be balanced with single overlaps unless any matrix will do."""
    from poolsieve.designs import Pooling, PoolingDesign

    scheme = Pooling.load(path)
    if any_matrix:
        return scheme
    try:
        return PoolingDesign(scheme.pools, scheme.images)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; --any-matrix takes it all the same") from None


def _options(names: Iterable[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
