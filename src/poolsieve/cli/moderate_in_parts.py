"""`poolsieve moderate --on local|ray`: a run in parts, by several workers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from poolsieve.cli.command import typed_again
from poolsieve.cli.saying import say
from poolsieve.progress import PLAIN_INTERVAL, duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from poolsieve.distributed import Opening, RunFolder, RunSettings
    from poolsieve.distributed.driving import PartedRun
    from poolsieve.distributed.opening import Chosen
    from poolsieve.distributed.worker_pool import WorkerPool
    from poolsieve.moderation.run_source import RunSource
    from poolsieve.planning.plans import Target

INTERRUPTED = 130
SEGMENT = 10
"""Chunks of a segment: some 1,000 images, half a minute of a processor."""


@dataclass(frozen=True)
class PartsRequest:
    """What was asked for on the command line.

    Attributes:
        source: Sources.
        column: Column of the paths in tables.
        bundle: The bundle.
        out: The run's folder.
        options: Of `Moderator.load`, but for seed and threads; plain values.
        seed: None for that of the run that is gone on with, or a fresh one.
        threads: Of each worker's engine.
        on: Where workers are.
        workers: How many; None for the default.
        segment: Chunks of a segment; None for the default.
        since: The earlier run whose images are not judged again.
        force: Whether to start anew.
        address: Of a Ray cluster.
        cpus: Processors of a Ray actor.
        gpus: GPUs of a Ray actor.
    """

    source: list[str]
    column: str | None
    bundle: str
    out: str
    options: dict[str, Any]
    seed: int | None
    threads: int | None
    on: Literal["local", "ray"]
    workers: int | None = None
    segment: int | None = None
    since: str | None = None
    force: bool = False
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def opening(self) -> Opening:
        """What makes the workers' moderators."""
        from poolsieve.distributed import BundleOpening

        return BundleOpening(self.bundle, self.options)


def target_options(target: Target | None) -> dict[str, Any] | None:
    """A target as plain values."""
    return None if target is None else asdict(target)


def run_in_parts(
    request: PartsRequest, console: Console, errors: Console
) -> tuple[RunFolder, PartedRun, bool]:
    """Do what was asked for; gives the run, and whether there was anything to do.

    Raises:
        ValueError: The folder holds another run, or something else.
    """
    from poolsieve.distributed import RunFolder, moderate_in_parts
    from poolsieve.distributed.driving import PartedRun, open_run
    from poolsieve.images.own_outputs import OwnOutputs

    folder, opening = RunFolder(request.out), request.opening()
    with _held(folder):
        if request.force and folder.settings() is not None:
            folder.clear()
        earlier, chosen = folder.settings(), opening.choose()
        settings = _settings(request, chosen, earlier)
        if earlier is None:
            folder.begin(settings)
        else:
            _check_same(folder, earlier, settings)
        if folder.finished:
            say(console, f"{folder} is finished already, so there is nothing to do; --force judges anew")
            return folder, open_run(folder, chosen), False
        run = PartedRun.begin(settings, chosen)
        with _Progress(errors).shown() as progress:
            moderate_in_parts(
                folder,
                run,
                lambda: _pool(request, opening),
                outputs=OwnOutputs([request.out]),
                on_progress=progress.update,
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
def telling_to_repeat(context: typer.Context) -> Iterator[None]:
    """Whatever ends the run early, say that the same command goes on."""
    from rich.console import Console

    from poolsieve.distributed.worker_pool import WorkersFailedError

    words = f"what was judged is kept; go on with: {typed_again(context, without=('--force',))}"
    try:
        yield
    except KeyboardInterrupt:
        say(Console(stderr=True), f"stopped. {words}")
        raise typer.Exit(INTERRUPTED) from None
    except WorkersFailedError as error:
        error.add_note(words)
        raise


@contextmanager
def _held(folder: RunFolder) -> Iterator[None]:
    """Keep other drivers of this machine from the same folder; an object store has no locks."""
    from poolsieve.folders import lock_folder

    if folder.location.remote:
        yield
        return
    if folder.location.kind() == "file":
        raise ValueError(f"{folder} is a file; with --on, verdicts go to a folder, such as --out run-1/")
    try:
        with lock_folder(Path(str(folder))):
            yield
    except TimeoutError:
        raise ValueError(
            f"another command is writing {folder} at this moment; wait until it has ended"
        ) from None


def _settings(request: PartsRequest, chosen: Chosen, earlier: RunSettings | None) -> RunSettings:
    from poolsieve.distributed import RunSettings
    from poolsieve.moderation.moderator import LARGEST_SEED
    from poolsieve.schemes import Scheme

    controller = chosen.controller()
    plans = () if isinstance(chosen.scheme, Scheme) else tuple(plan.to_json() for plan in chosen.scheme)
    seed = request.seed
    if seed is None:
        seed = secrets.randbelow(LARGEST_SEED + 1) if earlier is None else earlier.seed
    segment = request.segment
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


class _Progress:
    """How far a run is: on a terminal one line that changes, elsewhere a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = self._spoken = time.monotonic()
        self._status: Status | None = None

    @contextmanager
    def shown(self) -> Iterator[_Progress]:
        """Show it while the block runs."""
        with self._console.status("listing") as self._status:
            yield self

    def update(self, run: PartedRun) -> None:
        """Tell of what has been done by now."""
        line = self.line(run)
        if self._status is not None:
            self._status.update(line)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._spoken >= PLAIN_INTERVAL:
            self._spoken = now
            say(self._console, line)

    def line(self, run: PartedRun) -> str:
        """The line."""
        totals, seconds = run.totals, time.monotonic() - self._begin
        judged = totals.images - run.began_with
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
