"""`poolsieve evaluate`: what a bundle saves and misses on labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolsieve.cli.saying import say
from poolsieve.cli.shared_options import (
    BundleArgument,
    ClearFolders,
    EngineName,
    FlaggedFolders,
    LabelledImages,
    Prevalences,
    RunSeed,
    Threads,
)

if TYPE_CHECKING:
    from rich.table import Table

    from poolsieve.evaluation.results import Evaluation


def evaluate(
    bundle: BundleArgument,
    data: LabelledImages,
    report: Annotated[
        Path, typer.Option(help="Folder of the report: report.html and tables.", show_default=False)
    ],
    prevalences: Prevalences = None,
    images: Annotated[int, typer.Option(help="Images in the mixture at each prevalence.")] = 100_000,
    tuning_images: Annotated[
        int | None,
        typer.Option(
            help="Images in the mixture that parameters are tuned on. \\[default: 20000, and at least as "
            "many as hold 50 bad ones at the smallest prevalence]"
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="What to compare beside individual testing; repeat. Default: everything; a wrong name lists "
            "what there is.",
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split to measure on. \\[default: test]", show_default=False)
    ] = None,
    tuning_split: Annotated[
        str | None, typer.Option(help="Split to tune on. \\[default: val]", show_default=False)
    ] = None,
    all_test: Annotated[
        bool,
        typer.Option(
            "--all-test",
            help="Measure on all images of data without splits. There is nothing to tune on then, so methods "
            "have their defaults.",
        ),
    ] = False,
    seed: RunSeed = 0,
    timing_images: Annotated[
        int, typer.Option(help="Images that wall-clock times are taken of, from files on; 0 takes none.")
    ] = 500,
    thumbnails: Annotated[
        bool, typer.Option(help="Show the images that were judged wrongly in the report.")
    ] = True,
    by_density: Annotated[
        bool,
        typer.Option(
            "--by-density",
            help="Outlier bundles: read by the density of feature vectors alone, as in the paper.",
        ),
    ] = False,
    two_objects: Annotated[
        Path | None,
        typer.Option(
            help="A file with names of flagged images that show two objects, one a line: are pools with one "
            "of them read as pools with two flagged images?"
        ),
    ] = None,
    any_task: Annotated[
        bool, typer.Option("--any-task", help="Go on although the bundle does not seem to know the task.")
    ] = False,
    engine: EngineName = "auto",
    threads: Threads = None,
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            help="What networks say of images and pools is kept here, so that an interrupted run goes on. "
            "\\[default: REPORT/cache]"
        ),
    ] = None,
    flagged: FlaggedFolders = None,
    clear: ClearFolders = None,
) -> None:
    """Measure what a bundle saves and what it misses, with every method, and write a report.

    For instance:

        poolsieve evaluate my-bundle data.csv --report report/
    """
    from rich.console import Console

    import poolsieve.images  # noqa: F401 - first, as it says which extra is missing
    from poolsieve.bundles import load_bundle
    from poolsieve.evaluation import evaluate as run
    from poolsieve.evaluation.evaluation_plan import EvaluationPlan
    from poolsieve.evaluation.report_page import PAGE, headline, write_report
    from poolsieve.evaluation.simulate import PAPER_PREVALENCES
    from poolsieve.evaluation.tables import check_table_path
    from poolsieve.figures import check_figure_path
    from poolsieve.images.datasets import load_dataset
    from poolsieve.pages import templates
    from poolsieve.progress import Reporter

    # What can be refused is refused before the long work.
    if all_test and (split is not None or tuning_split is not None):
        raise ValueError("--all-test knows no splits; leave out --split and --tuning-split")
    plan = EvaluationPlan(
        prevalences=tuple(sorted(set(prevalences or PAPER_PREVALENCES))),
        images=images,
        tuning_images=tuning_images,
        methods=tuple(methods) if methods else None,
        split=split or "test",
        tuning_split=None if all_test else tuning_split or "val",
        seed=seed,
        timing_images=timing_images,
        two_objects=two_objects,
        by_density=by_density,
        any_task=any_task,
    )
    plan.check()
    check_table_path(report / "results.parquet")
    check_figure_path(report / "figure.svg")
    templates()  # raises if what the page needs is missing
    loaded = load_bundle(bundle)
    reporter = Reporter()
    with reporter.task(f"checking the images of {data}", 1) as task:
        dataset = load_dataset(
            data, flagged=flagged or (), clear=clear or (), needed=plan.splits, all_test=all_test
        )
        task.advance()
    reporter.line(f"{data}: {dataset.describe()}")
    evaluation = run(
        loaded,
        dataset,
        plan,
        engine=engine,
        threads=threads,
        cache_dir=cache_dir or report / "cache",
        reporter=reporter,
        data_name=str(data),
    )
    write_report(evaluation, report, thumbnails=thumbnails)
    console = Console()
    console.print(_table(evaluation))
    say(console, headline(evaluation).replace("**", ""))
    say(console, f"report: {report / PAGE}")


def _table(evaluation: Evaluation) -> Table:
    """Every method at every prevalence, for people."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("p", "method", "sensitivity", "specificity", "precision", "cost"):
        table.add_column(name, justify="left" if name in ("p", "method") else "right")
    rows = evaluation.rows
    for row, following in zip(rows, [*rows[1:], rows[-1]], strict=True):
        found = row.detection
        table.add_row(
            f"{row.prevalence:g}",
            row.title,
            f"{found.sensitivity.value:.4f}",
            f"{found.specificity.value:.4f}",
            f"{found.precision.value:.3f}" if found.precision.defined else "–",
            f"{row.cost:.3f}",
            end_section=following.prevalence != row.prevalence,
        )
    return table
