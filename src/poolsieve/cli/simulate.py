"""`poolsieve simulate`: compare decoders on simulated readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolsieve.cli.design import load_design
from poolsieve.cli.saying import say
from poolsieve.cli.shared_options import AnyMatrix, Prevalences, RunSeed

if TYPE_CHECKING:
    from rich.table import Table

    from poolsieve.decoders import CountNoise
    from poolsieve.designs import Pooling
    from poolsieve.evaluation import SimulationRow
    from poolsieve.statistics import Estimate

DEFAULT_METHODS = ["dorfman-8", "comp", "ncomp:t=2", "classo", "mip", "bp-hard", "bp"]


def simulate(
    decoders: Annotated[
        list[str],
        typer.Option(
            "--decoder",
            "-d",
            help="What to compare; repeat for several: comp, ncomp, dd, scomp, classo, mip, map, bp, "
            "quantitative-threshold, greedy-counts. Parameters are tuned unless given, as in "
            "[bold]ncomp:t=2[/]; [bold]bp-hard[/] and [bold]map-hard[/] decode counts alone; "
            "[bold]dorfman-8[/] is two rounds with pools of 8.",
        ),
    ] = DEFAULT_METHODS,
    designs: Annotated[
        list[str],
        typer.Option(
            "--design",
            help="Images, pool size and pools per image of a balanced design, or a design file (see "
            "[bold]poolsieve design --out[/]); repeat for several.",
        ),
    ] = ["100,8,4"],  # noqa: B006 (typer copies it)
    any_matrix: AnyMatrix = False,
    noises: Annotated[
        list[str],
        typer.Option(
            "--noise",
            help="How readings err: [bold]study[/] (correct in .98/.95/.90/.80 of pools with 0/1/2/3+ bad "
            "images, else off by one), [bold]none[/], a list such as [bold]0.95,0.9,0.8[/], or a CSV file "
            "with the confusion matrix P(reading | true count), one row a true count; repeat for several.",
        ),
    ] = ["study"],  # noqa: B006
    prevalences: Prevalences = None,
    chunks: Annotated[int, typer.Option(help="Chunks to measure on, at each prevalence.")] = 1000,
    tuning_chunks: Annotated[
        int, typer.Option(help="Other chunks to tune parameters on; 0 keeps the decoders' own defaults.")
    ] = 1000,
    correlation: Annotated[
        float, typer.Option(help="Correlation of errors across the pools of one image, 0 to 1.")
    ] = 0.0,
    seed: RunSeed = 0,
    plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            help="A decoder of your own to compare too, as module:Class or file.py:Class; its code is run. "
            "docs/decoding.md shows how to write one. Repeat for several.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the rows as .csv or .parquet.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw sensitivity and specificity against prevalence (.png, .svg, .pdf)."),
    ] = None,
) -> None:
    """Simulate pooled testing and compare decoders: sensitivity, specificity, tests, speed.

    Bad images are drawn at each prevalence, pools are read with noise, and every decoder sees the same
    readings. Parameters are tuned on other chunks of the same prevalence, as in the paper.
    """
    from rich.console import Console

    from poolsieve.decoders import load_plugin
    from poolsieve.evaluation import PAPER_PREVALENCES, parse_method
    from poolsieve.evaluation import simulate as run
    from poolsieve.evaluation.detection_figure import plot_detection
    from poolsieve.evaluation.tables import check_table_path, write_table
    from poolsieve.figures import check_figure_path, save_figure
    from poolsieve.progress import Reporter

    # What can be refused is refused before the long work.
    if out is not None:
        check_table_path(out)
    if figure is not None:
        check_figure_path(figure)
    own = [load_plugin(text) for text in plugins or ()]
    named = {text.partition(":")[0].removesuffix("-hard").removesuffix("-soft") for text in decoders}
    decoders = [*decoders, *(name for name in own if name not in named)]
    poolings = [_read_design(text, seed, any_matrix) for text in designs]
    given = [
        parse_method(text, pooling)
        for pooling in poolings
        for text in decoders
        # Unless it was asked for: it flags nothing where every image is in two pools.
        if decoders != DEFAULT_METHODS or text != "ncomp:t=2" or pooling.pools_per_image > 2
    ]
    # Once each: Dorfman's pools, for one, are the same for designs of one size.
    methods = [method for k, method in enumerate(given) if method not in given[:k]]
    largest = max(method.pooling.pool_size for method in methods)
    errors = {text: _read_noise(text, largest) for text in noises}
    shares = list(prevalences or PAPER_PREVALENCES)

    rows: list[SimulationRow] = []
    with Reporter().task("simulating", len(errors) * len(shares) * len(methods)) as task:
        for row in run(
            methods,
            errors,
            prevalences=shares,
            chunks=chunks,
            tuning_chunks=tuning_chunks,
            correlation=correlation,
            seed=seed,
        ):
            rows.append(row)
            task.advance(note=f"p = {row.prevalence:g}, {row.method}")
    console = Console()
    console.print(_table(rows, correlation, console.width))
    for line in _notes(rows):
        say(console, line)
    if out is not None:
        say(console, f"rows: {write_table([row.as_record() for row in rows], out)}")
    if figure is not None:
        say(console, f"figure: {save_figure(plot_detection(rows), figure)}")


def _read_design(text: str, seed: int, any_matrix: bool) -> Pooling:
    from poolsieve.designs import balanced_design

    numbers = text.split(",")
    if len(numbers) == 3 and all(number.strip().isdigit() for number in numbers):
        images, pool_size, pools_per_image = map(int, numbers)
        return balanced_design(images, pool_size, pools_per_image, seed)
    if not Path(text).exists():
        raise ValueError(f"--design {text}: neither three numbers such as 100,8,4 nor an existing file")
    return load_design(Path(text), any_matrix)


def _read_noise(text: str, pool_size: int) -> CountNoise:
    import numpy as np

    from poolsieve.decoders import CountNoise, LatentNoise
    from poolsieve.decoders.noise import NOMINAL_ACCURACY

    if text == "study":
        return LatentNoise.from_accuracy(NOMINAL_ACCURACY, pool_size)
    if text == "none":
        return CountNoise.none(pool_size)
    try:
        accuracy = [float(number) for number in text.split(",")]
    except ValueError:
        if not Path(text).exists():
            raise ValueError(f"--noise {text}: not study, none, a list of numbers or a file") from None
        try:
            if not Path(text).read_text().strip():
                raise ValueError("the file is empty")
            return CountNoise(np.loadtxt(text, delimiter=",", ndmin=2))
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from None
    return LatentNoise.from_accuracy(accuracy, pool_size)


def _table(rows: list[SimulationRow], correlation: float, width: int) -> Table:
    """Rows for people; parameters only where there is room (they are always in the file)."""
    from rich import box
    from rich.table import Table

    title = f"{rows[0].chunks:,} chunks at each prevalence, 95% intervals"
    title += f", errors correlated {correlation:g}" if correlation else ""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    pooled_designs = {row.design for row in rows if not row.method.startswith("dorfman")}
    columns: dict[str, Callable[[SimulationRow], str]] = {"p": lambda row: f"{row.prevalence:g}"}
    if len({row.noise for row in rows}) > 1:
        columns["noise"] = lambda row: row.noise
    if len(pooled_designs) > 1:
        columns["design"] = lambda row: row.design
    columns["method"] = lambda row: row.method
    columns["sensitivity"] = lambda row: _share(row.detection.sensitivity)
    columns["specificity"] = lambda row: _share(row.detection.specificity)
    columns["tests"] = lambda row: f"{row.tests_per_image:.3f}"
    columns["speed"] = lambda row: _speed(row.chunks_per_second)
    if width >= 120:
        if any(row.solved < 1 for row in rows):
            columns["unfinished"] = lambda row: f"{1 - row.solved:.1%}" if row.solved < 1 else ""
        columns["parameters"] = lambda row: row.parameters_text
    words = {"p", "noise", "design", "method", "parameters"}
    flexible = {"method", "parameters"}  # these wrap where the terminal is narrow; numbers never do
    for name, cell in columns.items():
        width_needed = 0 if name in flexible else max(len(cell(row)) for row in rows)
        table.add_column(
            name,
            justify="left" if name in words else "right",
            min_width=width_needed,
            no_wrap=name not in flexible,
        )
    for row, following in zip(rows, [*rows[1:], rows[-1]], strict=True):
        table.add_row(
            *(cell(row) for cell in columns.values()), end_section=following.prevalence != row.prevalence
        )
    return table


def _notes(rows: list[SimulationRow]) -> list[str]:
    """What the table's columns mean, and what must not be overlooked."""
    notes = ["tests: pools and individual tests for each image; speed: chunks decided in a second"]
    worst = min(rows, key=lambda row: row.solved)
    if worst.solved < 1:
        notes.append(
            f"not all chunks were decoded to the end: up to {1 - worst.solved:.1%} were not "
            f"({worst.method} at p = {worst.prevalence:g})"
        )
    return notes


def _speed(chunks_per_second: float) -> str:
    return f"{chunks_per_second / 1000:,.0f}k" if chunks_per_second >= 10_000 else f"{chunks_per_second:,.0f}"


def _share(share: Estimate) -> str:
    """Short enough for two such columns on 80 characters: .9800 .9571–.9912."""
    if not share.defined:
        return "–"
    value, low, high = (f"{number:.4f}".removeprefix("0") for number in (share.value, share.low, share.high))
    return f"{value} {low:>6}–{high:<6}"
