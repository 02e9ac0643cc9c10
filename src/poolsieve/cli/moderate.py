"""`poolsieve moderate`: from images to verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from poolsieve.cli.command import telling, typed_again
from poolsieve.cli.config_file import read_config
from poolsieve.cli.saying import say
from poolsieve.cli.scheme_options import given_options
from poolsieve.cli.shared_options import EngineName, Threads

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.images.own_outputs import OwnOutputs
    from poolsieve.moderation import Moderator
    from poolsieve.moderation.run_source import RunSource
    from poolsieve.moderation.verdict_files import VerdictLog
    from poolsieve.moderation.verdicts import Verdict
    from poolsieve.planning.plans import Target

SOME_FAILED = 1


def moderate(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Argument(
            help="A folder (with all below it), a CSV or JSONL file with a column of paths, a zip or tar, "
            "images, or - for paths on standard input; may be several. With --explain, a finished table.",
            show_default=False,
        ),
    ],
    bundle: Annotated[
        str | None,
        typer.Option(help="Folder of a bundle, or the name of one that comes with poolsieve. (needed)"),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Verdicts: .csv, .jsonl or .parquet; with --on, a folder. (needed)", show_default=False
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Decide by this plan, a .json file of `poolsieve plan`, or by the list of stages in it."
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="auto: how far below individual testing the sensitivity may lie. \\[default: 0.01]"
        ),
    ] = None,
    sensitivity: Annotated[
        float | None, typer.Option(help="auto: least sensitivity, in place of --within.")
    ] = None,
    specificity: Annotated[
        float | None, typer.Option(help="auto: least specificity. \\[default: that of individual testing]")
    ] = None,
    engine: EngineName = "auto",
    seed: Annotated[
        int | None,
        typer.Option(help="Decides who shares a pool with whom. \\[default: a fresh secret number]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of an earlier run, finished or not.")
    ] = False,
    column: Annotated[
        str | None, typer.Option(help="Column of the paths in a CSV or JSONL file. \\[default: file or path]")
    ] = None,
    copy_flagged: Annotated[
        Path | None,
        typer.Option(help="Copy the flagged images into this folder, in place of an earlier run's copies."),
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option("--contact-sheet", help="Show the worst flagged images with scores in this .png."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="A page about the run in this .html: findings, grounds, cost."),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Show the pools, readings and tests of this image; without --bundle and --out, from a "
            "finished table: --explain IMAGE verdicts.csv."
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe", help="CSV: put ' before text that a spreadsheet would take for a formula."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object; all else to standard error.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Take options from the table \\[moderate] of this .toml; the command line wins.",
            is_eager=True,
            callback=read_config,
            show_default=False,
        ),
    ] = None,
    chunk: Annotated[int | None, typer.Option(help="Images that are decided about together.")] = None,
    prevalence: Annotated[float | None, typer.Option(help="Expected share of bad images.")] = None,
    no_head: Annotated[bool, typer.Option("--no-head", help="The same prior for every image.")] = False,
    frames: Annotated[
        int,
        typer.Option(help="Frames of an animation that are looked at, evenly spaced; the worst counts."),
    ] = 1,
    threads: Threads = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images or pools that go through a network at once.")
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "low", "int8"],
        typer.Option(
            help="low: half precision, where engine and processor have it; int8: the bundle's int8 edition; "
            "auto: int8 where there is one and the processor gains by it, else (and with --plan) fp32."
        ),
    ] = "auto",
    on: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(
            help="Judge in parts, by workers on this machine or on a Ray cluster; --out is a folder, and the "
            "same command goes on where it was stopped."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="--on: workers. \\[default: local 1, ray all but one processor]")
    ] = None,
    segment: Annotated[
        int | None, typer.Option(help="--on: chunks of a part. \\[default: 10]", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="--on: judge only what this earlier run and those before it have not (by content)."
        ),
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="--on ray: the cluster. \\[default: RAY_ADDRESS, or one started here]")
    ] = None,
    cpus_per_worker: Annotated[float, typer.Option(help="--on ray: processors of a worker.")] = 1.0,
    gpus_per_worker: Annotated[float, typer.Option(help="--on ray: GPUs of a worker.")] = 0.0,
) -> None:
    """Judge images and write a verdict on each.

    For instance:

        poolsieve moderate photos/ --bundle firearms --out verdicts.parquet
    """
    from rich.console import Console

    from poolsieve.cli.explaining import explain_from_table

    if explain is not None and bundle is None and out is None:
        explain_from_table(source, explain, Console())
        return
    if bundle is None or out is None:
        missing = "--bundle" if bundle is None else "--out"
        raise ValueError(f"{missing} is missing: give a bundle (--bundle) and a file for verdicts (--out)")
    if resume and force:
        raise ValueError("give --resume to go on with a run or --force to start anew, not both")
    if spreadsheet_safe and not out.endswith(".csv"):
        raise ValueError(f"--spreadsheet-safe is for .csv, and {out} is none; leave it out")
    if on is None and since is not None:
        raise ValueError("--since is for runs in parts; add --on local, or --on ray")

    import poolsieve.images  # noqa: F401 - first, as it says which extra is missing
    from poolsieve.cli.explaining import explain as explain_image
    from poolsieve.cli.moderate_in_parts import PartsRequest, moderate_in_parts
    from poolsieve.cli.moderation_outputs import write_outputs
    from poolsieve.cli.moderation_summary import (
        hints,
        inner_archives,
        json_of_finished,
        json_summary,
        print_summary,
        warnings,
    )
    from poolsieve.images.locations import is_remote
    from poolsieve.moderation import Moderator
    from poolsieve.moderation.run_files import RunFiles
    from poolsieve.moderation.run_source import RunSource
    from poolsieve.moderation.verdict_files import DamagedLogError, VerdictLog, lock_output

    console, errors = Console(stderr=as_json, quiet=quiet), Console(stderr=True, quiet=quiet)
    target = _target(within, sensitivity, specificity)
    options: dict[str, Any] = {
        "engine": engine,
        "target": target,
        "plan": None if plan is None else str(plan),
        "batch_size": batch_size,
        "precision": precision,
        "frames": frames,
        "chunk": chunk,
        "prevalence": prevalence,
        "use_head": False if no_head else None,
        **given_options(context),
    }
    run_source = RunSource(source, column, RunFiles(Path(out), report, sheet, copy_flagged))
    if on is not None:
        from poolsieve.distributed.worker_pool import WorkersFailedError

        options["target"] = None if target is None else asdict(target)
        request = PartsRequest(
            *(source, column, bundle, out, options, seed, threads, on, workers, segment, since, force),
            *(ray_address, cpus_per_worker, gpus_per_worker),
        )
        run_source.files.check_beside(source)
        again = f"what was judged is kept; go on with: {typed_again(context, without=('--force',))}"
        with telling(lambda: again, lambda error: isinstance(error, WorkersFailedError)):
            run = moderate_in_parts(request, run_source, explain, as_json, console, errors)
        if run.totals.errors:
            raise typer.Exit(SOME_FAILED)
        return
    if is_remote(out):
        raise ValueError(
            f"{out}: a table goes to a file on disk; to write to an object store, add --on local"
        )
    run_source.files.check(source)
    with lock_output(out):
        if resume and run_source.files.finished:
            say(console, f"{out} is finished already, so there is nothing to do; --force judges anew")
            if as_json:
                typer.echo(json_of_finished(out))
            return
        earlier = VerdictLog.header_of(out) if resume else None
        if not force and earlier is None:
            run_source.files.check_absent()
        run_source.files.remove_temporary()
        given_seed = earlier["seed"] if earlier is not None and seed is None else seed
        if earlier is not None and precision == "auto":  # as it was settled then
            options["precision"] = earlier.get("precision", precision)
        moderator = Moderator.load(bundle, seed=given_seed, threads=threads, **options)
        header = {
            "source": source,
            "column": column,
            "precision": _settled(moderator, options["precision"]),  # another would say nearly the same
            "bundle": moderator.bundle.hash,
            "scheme": moderator.description,
            "seed": moderator.seed,
            "frames": frames,
        }
        log = VerdictLog.resume(out, header) if resume else VerdictLog.begin(out, header, replace=force)
        own = run_source.own_outputs()
        chunks = _chunks(moderator, log, run_source, own)
        how_to_go_on = partial(_how_to_go_on, context, log, run_source)
        with telling(how_to_go_on, lambda error: not isinstance(error, DamagedLogError)):
            _judge(moderator, log, chunks, run_source, errors)
            if explain is not None and not explain_image(log.verdicts, explain, Console(stderr=as_json)):
                say(console, f"no image is named {explain}, so there is nothing to explain")
            write_outputs(moderator, log, run_source, console, plan)
            archives = inner_archives(log.verdicts()) if moderator.totals.not_images else []
            log.finish(spreadsheet_safe=spreadsheet_safe)
        run_source.files.note_within(source)
    if as_json:
        typer.echo(json_summary(moderator, run_source, sum(own.passed_over.values())))
    else:
        print_summary(moderator, run_source, console)
    for line in warnings(moderator, by_plan=plan is not None):
        say(console, line)
    for line in hints(run_source, moderator.totals.images, archives, own.passed_over):
        say(errors, line)
    if moderator.totals.errors:
        raise typer.Exit(SOME_FAILED)


def _settled(moderator: Moderator, precision: str) -> str:
    """The precision of a run as it stands in its log."""
    if precision == "low":
        return precision
    return "int8" if moderator.bundle.config.precision == "int8" else "fp32"


def _target(within: float | None, sensitivity: float | None, specificity: float | None) -> Target | None:
    from poolsieve.planning.plans import Target

    if within is None and sensitivity is None and specificity is None:
        return None
    if within is not None and sensitivity is not None:
        raise ValueError("give --sensitivity or --within, not both")
    return Target(sensitivity, specificity, Target().within if within is None else within)


def _chunks(
    moderator: Moderator, log: VerdictLog, source: RunSource, own: OwnOutputs
) -> Iterator[tuple[Verdict, ...]]:
    """Verdicts on what is missing, after a look at whether what was judged is still there."""
    try:
        if log.done:
            source.check_unchanged(log)
        done = (verdict.path for verdict in log.verdicts())
        return moderator.moderate_chunks(
            source.source, column=source.column, done=done, state=log.state, outputs=own
        )
    except BaseException:
        if log.done == 0:
            log.discard()
        raise


def _judge(
    moderator: Moderator,
    log: VerdictLog,
    chunks: Iterator[tuple[Verdict, ...]],
    source: RunSource,
    console: Console,
) -> None:
    """Put verdicts on record as they come."""
    from poolsieve.cli.moderation_progress import ModerationProgress

    with ModerationProgress(console, moderator.totals, source.count).shown() as progress:
        for verdicts in chunks:
            log.append(verdicts[0].chunk, verdicts, moderator.totals.state())
            progress.update()


def _how_to_go_on(context: typer.Context, log: VerdictLog, source: RunSource) -> str:
    """Where verdicts are, and what to do; without any the log goes."""
    if log.done == 0:
        log.discard()  # there is nothing to go on from
        return "nothing had been judged yet, and nothing was written"
    piped = " the same names on standard input" if source.is_piped else ""
    again = typed_again(context, "--resume", without=("--force", "--resume"))
    return f"{log.done:,} verdicts are kept in {log.path}; go on with{piped}: {again}"
