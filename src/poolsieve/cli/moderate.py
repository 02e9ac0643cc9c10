"""`poolsieve moderate`: from images to verdicts."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.images.sources import Item
    from poolsieve.moderation import Moderator, Totals
    from poolsieve.planning.plans import Target
    from poolsieve.verdict_files import VerdictLog

SOME_FAILED = 1
_PLAIN_INTERVAL = 30.0
"""Seconds between two plain lines of progress."""


def moderate(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A folder (with all below it), a CSV or JSONL file with a column of paths, a zip or tar, "
            "images, or - for paths on standard input; may be several.",
            show_default=False,
        ),
    ],
    bundle: Annotated[
        str, typer.Option(help="Folder of a bundle, or the name of one that comes with poolsieve.")
    ],
    out: Annotated[Path, typer.Option(help="Verdicts: .csv, .jsonl or .parquet.", show_default=False)],
    scheme: Annotated[
        Literal["auto", "adaptive", "individual", "dorfman", "oneshot", "cascade", "glance"],
        typer.Option(
            help="How images are decided about; docs/moderating.md compares them. auto follows the cheapest "
            "plan for the share of bad images that it finds."
        ),
    ] = "auto",
    plan: Annotated[
        Path | None, typer.Option(help="Decide by this plan, a .json file of `poolsieve plan`.")
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
    engine: Annotated[
        Literal["auto", "openvino", "onnxruntime", "torch"], typer.Option(help="What runs the networks.")
    ] = "auto",
    seed: Annotated[
        int | None,
        typer.Option(help="Decides who shares a pool with whom. \\[default: a fresh secret number]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    column: Annotated[
        str | None, typer.Option(help="Column of the paths in a CSV or JSONL file. \\[default: file or path]")
    ] = None,
    copy_flagged: Annotated[
        Path | None, typer.Option(help="Copy the flagged images into this folder.")
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
        str | None, typer.Option(help="Show the pools, readings and tests of this image.")
    ] = None,
    chunk: Annotated[int | None, typer.Option(help="Images that are decided about together.")] = None,
    pool_size: Annotated[int | None, typer.Option(help="Images in a pool.")] = None,
    pools_per_image: Annotated[int | None, typer.Option(help="Pools that every image is in.")] = None,
    prevalence: Annotated[float | None, typer.Option(help="Expected share of bad images.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score of an individual test above which an image is flagged.")
    ] = None,
    retest_above: Annotated[
        float | None, typer.Option(help="adaptive: posterior from which an image is tested individually.")
    ] = None,
    test_above: Annotated[
        float | None,
        typer.Option(help="adaptive: posterior by the head from which an image is tested without pools."),
    ] = None,
    clear_below: Annotated[
        float | None,
        typer.Option(
            help="cascade, glance, adaptive: posterior by the first look below which an image is clear."
        ),
    ] = None,
    large_below: Annotated[
        float | None,
        typer.Option(help="adaptive: posterior by the head below which images share larger pools."),
    ] = None,
    large_pool_size: Annotated[int | None, typer.Option(help="adaptive: images in a larger pool.")] = None,
    decoder: Annotated[str | None, typer.Option(help="oneshot: name of the decoder.")] = None,
    no_head: Annotated[
        bool, typer.Option("--no-head", help="adaptive: the same prior for every image.")
    ] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="dorfman: run whole networks in the second round.")
    ] = False,
    frames: Annotated[
        int,
        typer.Option(help="Frames of an animation that are looked at, evenly spaced; the worst counts."),
    ] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads that the networks run on.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images or pools that go through a network at once.")
    ] = None,
    precision: Annotated[
        Literal["fp32", "low"],
        typer.Option(help="low: half precision, where engine and processor have it."),
    ] = "fp32",
) -> None:
    """Judge images and write a verdict on each.

    For instance:

        poolsieve moderate photos/ --bundle firearms --out verdicts.parquet
    """
    from rich.console import Console

    from poolsieve.files import check_writable
    from poolsieve.moderation import Moderator
    from poolsieve.verdict_files import VerdictLog, check_output

    check_output(out)
    if sheet is not None and check_writable(sheet).suffix != ".png":
        raise ValueError(f"{sheet}: a contact sheet ends in .png")
    if report is not None and check_writable(report).suffix != ".html":
        raise ValueError(f"{report}: a report ends in .html")
    if copy_flagged is not None:
        check_writable(copy_flagged / "image")
    earlier = VerdictLog.header_of(out) if resume else None
    moderator = Moderator.load(
        bundle,
        engine=engine,
        scheme=scheme,
        target=_target(within, sensitivity, specificity),
        plan=plan,
        seed=earlier["seed"] if earlier is not None and seed is None else seed,
        threads=threads,
        batch_size=batch_size,
        precision=precision,
        frames=frames,
        chunk=chunk,
        pool_size=pool_size,
        pools_per_image=pools_per_image,
        prevalence=prevalence,
        threshold=threshold,
        retest_above=retest_above,
        test_above=test_above,
        clear_below=clear_below,
        large_below=large_below,
        large_pool_size=large_pool_size,
        decoder=decoder,
        use_head=False if no_head else None,
        recompute=True if recompute else None,
    )
    header = {
        "source": source,
        "column": column,
        "bundle": moderator.bundle.hash,
        "scheme": moderator.description,
        "seed": moderator.seed,
        "frames": frames,
        "precision": precision,  # another engine would say the same, half precision not quite
    }
    log = VerdictLog.resume(out, header) if resume else VerdictLog.begin(out, header)
    console = Console()
    _run(moderator, log, source, column)
    if explain is not None:
        _explain(log, explain, console)
    _show_flagged(log, source, column, copy_flagged, sheet, console)
    if report is not None:
        _write_report(moderator, log, source, column, report)
    log.finish()
    _print_summary(moderator, out, console)
    if plan is not None:
        _warn_if_out_of_plan(moderator, console)
    if report is not None:
        console.print(f"wrote {report}", highlight=False, markup=False, soft_wrap=True)
    if not moderator.totals.images:
        _hint_at_sources(source)
    if moderator.totals.errors:
        raise typer.Exit(SOME_FAILED)


def _target(within: float | None, sensitivity: float | None, specificity: float | None) -> Target | None:
    from poolsieve.planning.plans import Target

    if within is None and sensitivity is None and specificity is None:
        return None
    if within is not None and sensitivity is not None:
        raise ValueError("give --sensitivity or --within, not both")
    return Target(sensitivity, specificity, Target().within if within is None else within)


def _run(moderator: Moderator, log: VerdictLog, source: list[str], column: str | None) -> None:
    """Judge what is missing, chunk by chunk."""
    from rich.console import Console

    console = Console(stderr=True)
    spoken = time.monotonic()
    done = (verdict.path for verdict in log.verdicts())
    try:
        chunks = moderator.moderate_chunks(_source_of(source), column=column, done=done, state=log.state)
        told = len(moderator.totals.plan_changes())  # before the run was stopped
        with console.status("reading") as status:
            for verdicts in chunks:
                log.append(verdicts[0].chunk, verdicts, moderator.totals.state())
                for line in moderator.totals.plan_changes()[told:]:
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
                    told += 1
                status.update(_progress(moderator.totals))
                if not console.is_terminal and time.monotonic() - spoken >= _PLAIN_INTERVAL:
                    spoken = time.monotonic()
                    console.print(_progress(moderator.totals), markup=False, highlight=False)
    except BaseException:
        if log.done == 0:
            log.discard()  # there is nothing to go on from
        raise


def _progress(totals: Totals) -> str:
    return (
        f"{totals.images:,} images, {totals.flagged:,} flagged, {totals.errors:,} errors, "
        f"{totals.images_per_second:.1f} images/s"
    )


def _source_of(source: list[str]) -> str | list[str]:
    return source[0] if len(source) == 1 else source


def _explain(log: VerdictLog, image: str, console: Console) -> None:
    found = None
    for verdict in log.verdicts():
        if verdict.path == image or verdict.path.endswith(f"/{image}"):
            found = verdict
            break
    if found is None:
        console.print(f"no image is named {image}, so there is nothing to explain", markup=False)
        return
    mates = {position for pool in found.pools for position in pool.members}
    names = {verdict.position: verdict.path for verdict in log.verdicts() if verdict.position in mates}
    for line in found.explain(names):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _show_flagged(
    log: VerdictLog,
    source: list[str],
    column: str | None,
    copies: Path | None,
    sheet: Path | None,
    console: Console,
) -> None:
    """Copy flagged images and draw the sheet, from the files as they are now."""
    from poolsieve.files import write_atomically
    from poolsieve.flagged_images import contact_sheet, copy_images, thumbnail, worst

    if copies is not None:
        flagged = {verdict.position: verdict.path for verdict in log.verdicts() if verdict.flagged}
        copied, failures = copy_images(_items_again(source, column, flagged), copies)
        for line in failures:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(f"copied {copied:,} flagged images to {copies}", markup=False, soft_wrap=True)
    if sheet is not None:
        shown = worst(log.verdicts())
        paths = {verdict.position: verdict.path for verdict in shown}
        thumbnails = {position: thumbnail(item) for position, item in _items_again(source, column, paths)}
        picture = io.BytesIO()
        contact_sheet(shown, thumbnails).save(picture, format="png")
        write_atomically(sheet, picture.getvalue())
        console.print(f"drew {len(shown):,} flagged images into {sheet}", markup=False, soft_wrap=True)


def _write_report(
    moderator: Moderator, log: VerdictLog, source: list[str], column: str | None, report: Path
) -> None:
    """A page about the run, with the images as they are now."""
    from poolsieve.files import write_atomically
    from poolsieve.flagged_images import thumbnail, worst
    from poolsieve.moderation_report import RunDescription, mates_of, moderation_page

    shown = worst(log.verdicts())
    mates = mates_of(shown)
    names = {verdict.position: verdict.path for verdict in log.verdicts() if verdict.position in mates}
    paths = {verdict.position: verdict.path for verdict in shown}
    thumbnails = {position: thumbnail(item) for position, item in _items_again(source, column, paths)}
    bundle = moderator.bundle
    run = RunDescription(bundle.name, bundle.hash, bundle.config.task, moderator.description, moderator.seed)
    errors = (verdict for verdict in log.verdicts() if verdict.status == "error")
    page = moderation_page(run, moderator.totals, shown, thumbnails, names, errors)
    write_atomically(report, page.encode())


def _items_again(source: list[str], column: str | None, paths: dict[int, str]) -> Iterator[tuple[int, Item]]:
    """The items at some positions: files by their paths, as a folder may have changed meanwhile.

    Members of archives are listed again; what came by standard input cannot be, but has paths.
    """
    from poolsieve.flagged_images import items_of
    from poolsieve.images.sources import STANDARD_INPUT, FileItem, list_items

    members = {}
    for position, path in paths.items():
        if STANDARD_INPUT in source or os.path.lexists(path):
            yield position, FileItem(path)
        else:
            members[position] = path
    found = set()
    if members:
        for position, item in items_of(list_items(_source_of(source), column=column), members):
            found.add(position)
            yield position, item
    for position in members.keys() - found:
        yield position, FileItem(members[position])  # reading it tells that it is gone


def _hint_at_sources(source: list[str]) -> None:
    from rich.console import Console

    from poolsieve.images.reading import FORMATS

    Console(stderr=True).print(
        f"no image was found in {', '.join(source)}. A folder is searched with all below it for files with "
        "any ending; a .csv or .jsonl lists paths in a column, a .zip or .tar holds images. "
        f"{', '.join(FORMATS)} are read, told by their content",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _warn_if_out_of_plan(moderator: Moderator, console: Console) -> None:
    """Say so if the share of bad images was not what the plan is for; it was followed all the same."""
    planned, estimate = getattr(moderator.scheme, "prevalence", None), moderator.totals.estimated_prevalence()
    if planned is None or estimate is None:
        return
    if estimate.low > planned:
        what = "it may miss more than it promises"
    elif estimate.high < planned / 2:
        what = "a plan for fewer would cost less"
    else:
        return
    console.print(
        f"warning: the plan is for a prevalence of {planned:.2%}, but {estimate} was found: {what}. Plan "
        "again, or leave out --plan, so that plans change with the images",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _print_summary(moderator: Moderator, out: Path, console: Console) -> None:
    from rich.table import Table

    totals = moderator.totals
    estimate = totals.estimated_prevalence()
    rows: list[tuple[str, Any]] = [
        ("images", f"{totals.images:,}"),
        ("flagged", f"{totals.flagged:,}"),
        ("clear", f"{totals.clear:,}"),
        ("errors", f"{totals.errors:,}"),
        ("speed", f"{totals.images_per_second:.1f} images/s"),
        ("cost", f"{totals.meter.share:.3f} of testing every image individually"),
        ("", totals.meter.lines()[0]),
        ("time", totals.meter.lines()[2]),
        ("estimated prevalence", "unknown" if estimate is None else f"{estimate} (95%)"),
        ("scheme", moderator.description),
        *([("plan at first", totals.first_plan())] if totals.follower is not None else []),
        *(("plan changed", line) for line in totals.plan_changes()),
        ("seed", str(moderator.seed)),
    ]
    table = Table(show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    console.print(table, highlight=False, markup=False)
    console.print(f"wrote {out}", highlight=False, markup=False, soft_wrap=True)
    if totals.unfinished:
        chunks = "chunk" if totals.unfinished == 1 else "chunks"
        console.print(
            f"warning: in {totals.unfinished:,} {chunks} the decoder stopped before it was done; see the "
            "column note, and take another decoder (--decoder bp) or scheme if there are many",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
