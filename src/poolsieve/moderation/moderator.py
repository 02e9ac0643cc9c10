"""From a source of images to verdicts.

Images are read ahead on threads and gathered into chunks by their position in the source. The scheme decides
about each chunk; the order in which its images are dealt into pools depends on a secret seed, so that those
who send images cannot choose their neighbours. An image that cannot be read gets a verdict that says so, and
the others are decided as if it had not been there.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from poolsieve.images.own_outputs import OwnOutputs
from poolsieve.images.reading_ahead import read_ahead, read_as_they_come
from poolsieve.images.sources import AnyImage, AnySource, Item, Loaded, image_item, list_items
from poolsieve.moderation.chunk_judge import DIGITS, ChunkJudge
from poolsieve.moderation.chunk_pixels import PreparedImage
from poolsieve.moderation.stream import Stream, check_wait, verdicts_in_order
from poolsieve.moderation.verdicts import Verdict
from poolsieve.planning.choosing import choose_scheme, small_views_pay
from poolsieve.planning.plan_controller import PlanController
from poolsieve.planning.plans import Plan, Target
from poolsieve.schemes import (
    CostMeter,
    Decision,
    LikelihoodModel,
    Prevalence,
    PrevalenceEstimator,
    Scheme,
)

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.editions import WantedPrecision
    from poolsieve.images.views import ViewRequest
    from poolsieve.schemes.runner import Networks

LARGEST_SEED = 2**63 - 1
"""So that a seed fits into a column of whole numbers."""


@dataclass
class Totals:
    """What a run has done so far.

    Attributes:
        meter: What it cost.
        prevalence: What is known of the share of bad images.
        flagged: Flagged images.
        clear: Clear images.
        errors: Images that could not be read.
        not_images: Files that are no images.
        controller: Changes plans as the prevalence does; None if the scheme was given.
        unfinished: Chunks whose decoder stopped early; their verdicts have a note.
    """

    meter: CostMeter
    prevalence: PrevalenceEstimator = field(default_factory=PrevalenceEstimator)
    flagged: int = 0
    clear: int = 0
    errors: int = 0
    not_images: int = 0
    controller: PlanController | None = None
    unfinished: int = 0

    @property
    def images(self) -> int:
        """All images, read or not."""
        return self.flagged + self.clear + self.errors

    @property
    def images_per_second(self) -> float:
        """Speed from file to verdict."""
        return self.images / max(self.meter.total_seconds, 1e-9)

    def estimated_prevalence(self) -> Prevalence | None:
        """Share of bad images among those that could be read; None if there were none."""
        return self.prevalence.estimate()

    def first_plan(self) -> str | None:
        """The plan that was followed at first, for people; None if the scheme was given."""
        return None if self.controller is None else self.controller.first.describe()

    def plan_changes(self) -> list[str]:
        """Every change of plan, for people; a resumed run tells those before it was stopped too."""
        return [] if self.controller is None else [str(switch) for switch in self.controller.switches]

    def count(self, verdicts: Sequence[Verdict]) -> None:
        """Count verdicts."""
        for verdict in verdicts:
            self.flagged += verdict.status == "flagged"
            self.clear += verdict.status == "clear"
            self.errors += verdict.status == "error"
            self.not_images += verdict.status == "not_image"

    def learn(self, decision: Decision, chunk: int) -> None:
        """Learn what a decision about a chunk, by its number, tells of the prevalence."""
        self.prevalence.add(decision.likelihoods, decision.group_sizes, decision.group_weight)
        if self.controller is not None:
            self.controller.observe(decision, len(decision.scores), chunk)
        self.unfinished += not decision.solved

    def state(self) -> dict[str, Any]:
        """Plain values from which `restore` goes on."""
        return {
            "meter": self.meter.counts(),
            "likelihood": [round(float(value), DIGITS) for value in self.prevalence.log_likelihood],
            "groups": self.prevalence.groups,
            "flagged": self.flagged,
            "clear": self.clear,
            "errors": self.errors,
            "not_images": self.not_images,
            **({} if self.controller is None else {"plans": self.controller.state()}),
            "unfinished": self.unfinished,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier run's state."""
        self.meter.add(state["meter"])
        self.prevalence.log_likelihood += np.array(state["likelihood"])
        self.prevalence.groups += state["groups"]
        for name in ("flagged", "clear", "errors", "not_images", "unfinished"):
            setattr(self, name, getattr(self, name) + state[name])
        if self.controller is not None and "plans" in state:
            self.controller.restore(state["plans"])


@dataclass
class Run:
    """Where a run over images stands: it outlives a call, so that what was learnt goes on to the next.

    `Moderator.new_run` makes one. Chunks of a run are judged one after the other.

    Attributes:
        totals: What it has done and learnt.
        chunk: Number of the next chunk.
        position: Position of the next image.
    """

    totals: Totals
    chunk: int = 0
    position: int = 0


class Moderator:
    """Judges images with a bundle, by a scheme.

    Threads may share a Moderator: every call of `moderate`, `moderate_chunks`, `stream` and `judge` is a run
    of its own, with the verdicts that it would have alone. Chunks are judged one at a time, so that threads
    gain by reading side by side, while the engine computes on all processors as it is. Moderators may share a
    bundle and an engine too. What is not to be shared is one iterator over verdicts; the `Stream` that
    `stream` gives takes images from any thread. `totals` are those of the run that began last.

    Args:
        bundle: What was trained.
        networks: An engine that runs it.
        scheme: How chunks are decided; or plans for ascending prevalences, of which the one is followed that
            suits the last images.
        prevalence: With plans, the expected share of bad images to begin with; None if unknown.
        seed: Seed of the order in which chunks are dealt into pools; None draws a secret one. The same seed
            and source give the same verdicts.
        reading_threads: Threads that read and decode images; None for as many as there are processors, at
            most 8.
        frames: Frames that are looked at of an animation, evenly spaced. The first is judged like any image,
            the others by the individual network; the verdict is the worst.

    Attributes:
        bundle: The bundle.
        scheme: The scheme; with plans, that of the present one in the run that began last.
        seed: The seed, which is also in every verdict.
        totals: Counts, cost and estimated prevalence of the run that began last, while and after it goes on.
    """

    def __init__(
        self,
        bundle: Bundle,
        networks: Networks,
        scheme: Scheme | Sequence[Plan],
        *,
        prevalence: float | None = None,
        seed: int | None = None,
        reading_threads: int | None = None,
        frames: int = 1,
    ) -> None:
        self.bundle = bundle
        self._plans = None if isinstance(scheme, Scheme) else tuple(scheme)
        self._scheme = scheme if isinstance(scheme, Scheme) else None
        self._prevalence = prevalence
        self.seed = secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed={seed}, but it must lie between 0 and {LARGEST_SEED}")
        self._threads = reading_threads or min(8, os.cpu_count() or 1)
        self._judging = threading.Lock()
        self.totals = self._new_totals()  # complains if there is no plan
        if self._plans is None:
            small = any(stage.sees_small(bundle.config) for stage in self.scheme.stages)
        else:
            small = small_views_pay(self._plans, bundle.config)
        self._chunk_judge = ChunkJudge(
            bundle, networks, self.seed, frames, small_views=small, threads=self._threads
        )
        self.scheme.prepare(bundle.config, LikelihoodModel(bundle.calibration))  # complains at once

    @property
    def scheme(self) -> Scheme:
        """The scheme that decides about the next chunk of the run that began last."""
        return self._scheme_of(self.totals)

    def _scheme_of(self, totals: Totals) -> Scheme:
        if totals.controller is not None:
            return totals.controller.scheme
        assert self._scheme is not None
        return self._scheme

    @property
    def view(self) -> ViewRequest:
        """What images are brought to: moderators with the same can share what `prepare` makes."""
        return self._chunk_judge.view

    @property
    def description(self) -> str:
        """The scheme with its parameters, or all plans that may be followed: the same for the whole run."""
        return str(self.totals.controller or self._scheme)

    @classmethod
    def load(
        cls,
        bundle: str | os.PathLike[str],
        *,
        engine: str = "auto",
        scheme: str | Scheme = "auto",
        target: Target | None = None,
        plan: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        precision: WantedPrecision = "auto",
        frames: int = 1,
        **parameters: Any,
    ) -> Moderator:
        """Load a bundle and make it ready.

        Args:
            bundle: A folder, or the name of a bundle that comes with the package.
            engine: "openvino", "onnxruntime", "torch", or "auto" for the best that is installed.
            scheme: "auto", one of `poolsieve.schemes.list_schemes()`, or stages of your own
                (`poolsieve.schemes.Scheme`). "auto" follows the cheapest plan for the prevalence of the
                images; a bundle without recordings, which has no plans, is run with "adaptive".
            target: What the plans of "auto" must reach; by default a sensitivity within one point of
                individual testing, and no worse a specificity.
            plan: File of a plan, in place of scheme and parameters.
            seed: As above.
            threads: Threads that the engine computes on.
            batch_size: Images or pools that go through the network at once.
            precision: "fp32"; "low" for half precision where engine and processor have it; "int8" for the
                bundle's int8 edition; "auto" for that where there is one and this processor gains by it, but
                not with a plan from a file, which was made for the bundle itself.
            frames: As above.
            parameters: The scheme's own: pool_size, prevalence, chunk, ...; None stands for the default.
        """
        from poolsieve.bundles import load_bundle
        from poolsieve.engines import open_engine, settle_precision

        settled, loaded = settle_precision(load_bundle(bundle), engine, precision, planned=plan is not None)
        made, prevalence = choose_scheme(loaded, scheme, target, plan, parameters)
        opened = open_engine(loaded, engine, threads=threads, precision=settled, batch_size=batch_size)
        sizes = loaded.config.pool_sizes
        first = made if isinstance(made, Scheme) else PlanController(made, sizes, prevalence).scheme
        opened.prepare(first.graphs(loaded.config))  # meanwhile the design is made and images are read
        return cls(loaded, opened, made, prevalence=prevalence, seed=seed, frames=frames)

    def judge(self, image: AnyImage, *, name: str | None = None) -> Verdict:
        """Judge one image, as the only one of a run of its own.

        It is never pooled. With plans, the one is followed that a run begins with, and nothing is learnt from
        the image: the same image has the same verdict, whatever was judged before. `totals` stay as they are.

        Args:
            image: Path of an image file, content of one (bytes), a file that is open for reading bytes, a
                PIL image, or an array (H, W, 3), uint8, RGB.
            name: What the verdict calls an image that is no path.

        Returns:
            The verdict; its status is "error" if the image cannot be read.

        Raises:
            TypeError, ValueError: The image is nothing of that kind.
        """
        return self.judge_chunk([self.prepare(image, name=name)], self.new_run())[0]

    def new_run(self) -> Run:
        """A run that nothing was judged in yet; with plans, it begins with that for the stated prevalence."""
        return Run(self._new_totals())

    def prepare(self, image: AnyImage, *, name: str | None = None) -> PreparedImage:
        """Read one image as `judge_chunk` takes it. Any number of threads may.

        Args:
            image: As in `judge`.
            name: As in `judge`.

        Raises:
            TypeError, ValueError: The image is nothing of that kind. One that cannot be read is prepared too,
                and gets a verdict that says so.
        """
        return self._chunk_judge.prepare(
            image_item(image, name=name), None, small=self.scheme.small_first(self.bundle.config)
        )

    def chunk_size(self, run: Run) -> int:
        """Images that the present plan of a run would best be given at once; fewer cost more."""
        return self._scheme_of(run.totals).chunk_size

    def stream(self, *, longest_wait: float | None = 0.1, run: Run | None = None) -> Stream:
        """Open a run over images that come one by one, from any thread; see `Stream`.

        Args:
            run: The run that it goes on with; None begins one.
            longest_wait: Seconds after which an image is judged with those that have come since, although
                they are no full chunk; None to wait for full chunks, `flush` or the end.
        """
        return self._open_stream(run or self._begin(), longest_wait)

    def moderate(
        self,
        source: AnySource,
        *,
        column: str | None = None,
        longest_wait: float | None = None,
        run: Run | None = None,
    ) -> Iterator[Verdict]:
        """Judge all images of a source; verdicts come in its order, a chunk at a time.

        Args:
            source: A folder, file, CSV or JSONL file, archive, `-`, image in memory, or anything that can be
                iterated over and gives these, such as a generator; see
                `poolsieve.images.sources.list_items`.
            column: Column of the paths in a CSV or JSONL file.
            longest_wait: For sources that take their time: seconds after which an image is judged with those
                that have come since, although they are no full chunk. Who shares a chunk then depends on
                time, and the source is iterated over on another thread. None waits for full chunks.
            run: The run that it goes on with, such as that of another source; None begins one.
        """
        if longest_wait is None:
            chunks = self.moderate_chunks(source, column=column, run=run)
            return (verdict for chunk in chunks for verdict in chunk)
        check_wait(longest_wait)
        run = run or self._begin()
        return self._as_they_come(list_items(source, column=column), run, longest_wait)

    def moderate_chunks(
        self,
        source: AnySource,
        *,
        column: str | None = None,
        done: Iterable[str] = (),
        state: dict[str, Any] | None = None,
        outputs: OwnOutputs | None = None,
        run: Run | None = None,
    ) -> Iterator[tuple[Verdict, ...]]:
        """Judge all images of a source, a whole chunk at a time.

        Args:
            source: As in `moderate`.
            column: As in `moderate`.
            done: Names of the images that an earlier run judged, in order: whole chunks from the start on.
            state: What that run's `totals.state()` was then.
            outputs: Tells which files below a folder are our own, as in `list_items`.
            run: As in `moderate`.

        Raises:
            ValueError: If the source does not begin with the images that are done.
        """
        run = run or self._begin()
        if state is not None:
            run.totals.restore(state)
        items = list_items(source, column=column, outputs=outputs)
        count = _pass_over(items, done)
        size = self.chunk_size(run)
        number, left = divmod(count, size)
        if left and next(items, None) is not None:
            raise ValueError(f"the source ended after {count} images when the run began, and has more now")
        if isinstance(source, str | os.PathLike | Collection):
            chunks = self.prepare_chunks(items, size, run)
        else:  # what comes next may take its time
            chunks = read_as_they_come(items, self._reader(run), threads=self._threads, size=size)
        run.chunk, run.position = run.chunk + number, run.position + number * size
        return self._verdicts(chunks, run)

    def _begin(self) -> Run:
        run = self.new_run()
        self.totals = run.totals  # another thread may begin a run at any time
        return run

    def _new_totals(self) -> Totals:
        controller = None
        if self._plans is not None:
            controller = PlanController(self._plans, self.bundle.config.pool_sizes, self._prevalence)
        return Totals(CostMeter(self.bundle.config.cost), controller=controller)

    def _reader(self, run: Run) -> Callable[[Item, Loaded], PreparedImage]:
        """Reads images as large as the first stage of the run's present plan needs them."""

        def read(item: Item, data: Loaded) -> PreparedImage:
            return self._chunk_judge.prepare(
                item, data, small=self._scheme_of(run.totals).small_first(self.bundle.config)
            )

        return read

    def prepare_chunks(self, items: Iterator[Item], size: int, run: Run) -> Iterator[list[PreparedImage]]:
        """Read images on threads, ahead of whoever judges them in a run; so many at a time, in order."""
        ahead = max(2 * size, 2 * self._threads)
        prepared = read_ahead(items, self._reader(run), threads=self._threads, ahead=ahead)
        return iter(lambda: list(islice(prepared, size)), [])

    def _verdicts(self, chunks: Iterator[list[PreparedImage]], run: Run) -> Iterator[tuple[Verdict, ...]]:
        while True:
            with run.totals.meter.time("reading"):
                images = next(chunks, None)
            if images is None:
                return
            yield self.judge_chunk(images, run)

    def _as_they_come(self, items: Iterator[Item], run: Run, longest_wait: float) -> Iterator[Verdict]:
        yield from verdicts_in_order(items, self._open_stream(run, longest_wait))

    def _open_stream(self, run: Run, longest_wait: float | None) -> Stream:
        return Stream(
            self._reader(run),
            lambda images: self.judge_chunk(images, run),
            run.totals,
            chunk_size=self.chunk_size(run),
            longest_wait=longest_wait,
            threads=self._threads,
        )

    def judge_chunk(self, images: Sequence[PreparedImage], run: Run) -> tuple[Verdict, ...]:
        """Judge the next chunk of a run, and learn from it.

        The same images, number of the chunk and seed give the same verdicts. Threads wait for each other.

        Args:
            images: What `prepare` made; as many as `chunk_size` says, or fewer where they cannot wait.
            run: What was judged before; its totals, estimate and plan go on.
        """
        totals = run.totals
        with self._judging:  # for the memory as well: no two chunks have their features at once
            verdicts, decision = self._chunk_judge.judge(
                images, run.chunk, run.position, self._scheme_of(totals), totals.meter
            )
        if decision is not None:
            totals.learn(decision, run.chunk)
        totals.count(verdicts)
        run.chunk += 1
        run.position += len(images)
        return verdicts


def _pass_over(items: Iterator[Item], done: Iterable[str]) -> int:
    """Pass over the images that are done; gives their number."""
    count = 0
    for count, name in enumerate(done, 1):
        item = next(items, None)
        if item is None or item.name != name:
            found = "missing" if item is None else f"now {item.name}"
            raise ValueError(
                f"the source has changed since the run began: image {count - 1} was {name} and is {found}; "
                "start anew"
            )
    return count
