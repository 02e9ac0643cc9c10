"""`poolsieve moderate --on local|ray`: a run in parts, by several workers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from poolsieve.cli.moderation_progress import StatusLine
from poolsieve.cli.saying import say
from poolsieve.progress import duration

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.distributed import Opening, RunFolder, RunSettings
    from poolsieve.distributed.driving import PartedRun
    from poolsieve.distributed.opening import Chosen
    from poolsieve.distributed.worker_pool import WorkerPool
    from poolsieve.moderation.run_source import RunSource

SEGMENT = 10
"""Chunks of a segment: some 1,000 images, half a minute of a processor."""


@dataclass(frozen=True)
class PartsRequest:
    """What was asked for on the command line."""

    source: list[str]
    column: str | None  # column of the paths in tables
    bundle: str
    out: str  # the run's folder
    options: dict[str, Any]  # of `Moderator.load`, but for seed and threads; plain values
    seed: int | None  # None for that of the run that is gone on with, or a fresh one
    threads: int | None  # of each worker's engine
    on: Literal["local", "ray"]  # where workers are
    workers: int | None = None  # how many; None for the default
    segment: int | None = None  # chunks of a segment; None for the default
    since: str | None = None  # the earlier run whose images are not judged again
    force: bool = False  # whether to start anew
    address: str | None = None  # of a Ray cluster
    cpus: float = 1.0  # processors of a Ray actor
    gpus: float = 0.0  # GPUs of a Ray actor


def run_in_parts(
    request: PartsRequest, console: Console, errors: Console
) -> tuple[RunFolder, PartedRun, bool]:
    """Do what was asked for; gives the run, and whether there was anything to do."""
    from poolsieve.distributed import BundleOpening, RunFolder, moderate_in_parts
    from poolsieve.distributed.driving import PartedRun, open_run
    from poolsieve.images.own_outputs import OwnOutputs

    folder = RunFolder(request.out)
    with _held(folder):
        if request.force and folder.settings() is not None:
            folder.clear()
        earlier = folder.settings()
        if earlier is not None and request.options["precision"] == "auto":  # as it was settled then
            precision = earlier.options["precision"]
            request = replace(request, options={**request.options, "precision": precision})
        opening = BundleOpening(request.bundle, request.options)
        request, chosen = replace(request, options=dict(opening.options)), opening.choose()
        settings = _settings(request, chosen, earlier)
        if earlier is None:
            folder.begin(settings)
        else:
            _check_same(folder, earlier, settings)
        if folder.finished:
            say(console, f"{folder} is finished already, so there is nothing to do; --force judges anew")
            return folder, open_run(folder, chosen), False
        run = PartedRun.begin(settings, chosen)
        with StatusLine(errors).shown("listing") as progress:
            moderate_in_parts(
                folder,
                run,
                lambda: _pool(request, opening),
                outputs=OwnOutputs([request.out]),
                on_progress=lambda now: progress.change(_line(now, progress.seconds)),
            )
        _note_within(folder, request.source)
    return folder, run, True


def moderate_in_parts(
    request: PartsRequest,
    source: RunSource,
    explain: str | None,
    as_json: bool,
    console: Console,
    errors: Console,
) -> PartedRun:
    """Do what was asked for, write what shall stand beside the verdicts, and say what was found."""
    from rich.console import Console

    from poolsieve.cli.explaining import explain as explain_image
    from poolsieve.cli.moderation_outputs import write_outputs
    from poolsieve.cli.moderation_summary import (
        hints,
        json_of_finished,
        json_summary,
        print_summary,
        warnings,
    )

    begin = time.monotonic()
    folder, run, judged = run_in_parts(request, console, errors)
    if explain is not None and not explain_image(folder.verdicts, explain, Console(stderr=as_json)):
        say(console, f"no image is named {explain}, so there is nothing to explain")
    plan = request.options.get("plan")
    write_outputs(run, folder, source, console, None if plan is None else Path(plan))
    if as_json:
        typer.echo(json_summary(run, source, 0, out=request.out) if judged else json_of_finished(request.out))
    elif judged:
        rate = (run.totals.images - run.began_with) / max(time.monotonic() - begin, 1e-9)
        print_summary(run, source, console, out=request.out, speed=f"{rate:.1f} images/s with all workers")
    # With --since, nothing new is no mistake.
    about_source = [] if request.since is not None else hints(source, run.totals.images, [], {})
    for line in [*warnings(run, by_plan=plan is not None), *about_source]:
        say(console, line)
    return run


@contextmanager
def _held(folder: RunFolder) -> Iterator[None]:
    """Keep other drivers of this machine from the same folder; an object store has no locks."""
    from poolsieve.folders import lock_folder

    if folder.location.remote:
        yield
        return
    if folder.location.kind() == "file":
        raise ValueError(f"{folder} is a file; with --on, verdicts go to a folder, such as --out run-1/")
    words = f"another command is writing {folder} at this moment; wait until it has ended"
    with lock_folder(Path(str(folder)), if_held=words):
        yield


def _settings(request: PartsRequest, chosen: Chosen, earlier: RunSettings | None) -> RunSettings:
    from poolsieve.distributed import RunSettings
    from poolsieve.moderation.moderator import LARGEST_SEED
    from poolsieve.schemes import Scheme

    controller = chosen.controller()
    plans = () if isinstance(chosen.scheme, Scheme) else tuple(plan.to_json() for plan in chosen.scheme)
    seed, segment = request.seed, request.segment
    if seed is None:
        seed = secrets.randbelow(LARGEST_SEED + 1) if earlier is None else earlier.seed
    if segment is None:
        segment = SEGMENT if earlier is None else earlier.segment
    if segment < 1:
        raise ValueError(f"--segment {segment}: a segment has at least one chunk")
    made = RunSettings(
        source=tuple(request.source),
        column=request.column,
        bundle=request.bundle,
        bundle_hash=chosen.bundle.hash,
        scheme=str(controller or chosen.scheme),
        options=request.options,
        plans=plans,
        seed=seed,
        chunk=chosen.scheme.chunk_size if controller is None else controller.chunk_size,  # type: ignore[union-attr]
        segment=segment,
        since=request.since,
    )
    return RunSettings.from_json(made.to_json())  # as it will be read


def _check_same(folder: RunFolder, earlier: RunSettings, settings: RunSettings) -> None:
    for name, value in asdict(settings).items():
        before = getattr(earlier, name)
        if before != value:
            words = f"is a run with {name} {before!r}, not {value!r}"
            if name in ("plans", "options"):
                words = f"is a run with other {name}"
            raise ValueError(
                f"{folder} {words}; give the same options, another folder, or --force to start anew"
            )


def _pool(request: PartsRequest, opening: Opening) -> WorkerPool[Any]:
    from poolsieve.distributed.opening import processors

    if request.on == "ray":
        from poolsieve.distributed.ray_workers import RayPool, RayResources

        resources = RayResources(request.address, request.cpus, request.gpus)
        return RayPool(opening, request.out, request.workers, request.threads, resources)
    from poolsieve.distributed.local_workers import LocalPool

    size = request.workers or 1
    threads = request.threads if request.threads or size == 1 else max(1, processors() // size)
    return LocalPool(opening, request.out, size, threads)


def _note_within(folder: RunFolder, sources: list[str]) -> None:
    """Note the files of a run that lies below a source, so that later runs over it leave them out."""
    from poolsieve.images.own_outputs import note_outputs

    if folder.location.remote:
        return
    here = Path(str(folder)).resolve()
    if any(Path(source).resolve() in here.parents for source in sources):
        for place in (here, here / "parts", here / "listing"):
            if place.is_dir():
                note_outputs(place, results=[path.name for path in place.iterdir() if path.is_file()])


def _line(run: PartedRun, seconds: float) -> str:
    """How far a run is after so many seconds."""
    totals, judged = run.totals, run.totals.images - run.began_with
    line = (
        f"{run.done:,} of {run.listed:,}{'' if run.listing_ended else '+'} segments: "
        f"{totals.images:,} images, {totals.flagged:,} flagged, {totals.errors:,} errors, "
        f"cost {totals.meter.share:.3f}"
    )
    if judged <= 0:
        return line
    left = max(run.listed * run.settings.images - totals.images - totals.not_images, 0) * seconds / judged
    more = "" if run.listing_ended else " of what is listed"
    return f"{line}, {judged / seconds:.1f} images/s, {duration(left)} left{more}"
