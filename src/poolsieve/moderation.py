"""From a source of images to verdicts: the whole way of an image, in one file.

Images are read ahead on threads and gathered into chunks by their position in the source. The scheme decides
about each chunk; the order in which its images are dealt into pools depends on a secret seed, so that those
who send images cannot choose their neighbours. An image that cannot be read gets a verdict that says so, and
the others are decided as if it had not been there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from poolsieve.images.reading import MAX_FRAMES
from poolsieve.images.sources import AnySource, Item, Loaded, list_items, read_ahead, read_views
from poolsieve.planning.choosing import choose_scheme
from poolsieve.planning.following import PlanFollower
from poolsieve.planning.plans import Plan, Target
from poolsieve.schemes import (
    Chunk,
    CostMeter,
    Decision,
    Evidence,
    PooledScheme,
    Prevalence,
    PrevalenceEstimator,
    Scheme,
)
from poolsieve.schemes.individual import Individual
from poolsieve.verdicts import PoolReading, Verdict

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.schemes.runner import Networks

LARGEST_SEED = 2**63 - 1
"""So that a seed fits into a column of whole numbers."""
_DIGITS = 6
"""Decimals of numbers in records; more would tell engines apart and mean nothing."""
_FRAMES_AT_ONCE = 100


@dataclass(frozen=True)
class _Prepared:
    """One image as the network takes it, or why there is none.

    Attributes:
        name: Its name.
        sha256: Hash of its bytes.
        pixels: The image, of an animation the frame that is shown first.
        later: Further frames of an animation.
        reason: Why there is none.
    """

    name: str
    sha256: str | None
    pixels: NDArray[np.uint8] | None
    later: Sequence[NDArray[np.uint8]]
    reason: str | None


@dataclass
class Totals:
    """What a run has done so far.

    Attributes:
        meter: What it cost.
        prevalence: What is known of the share of bad images.
        flagged: Flagged images.
        clear: Clear images.
        errors: Images that could not be read.
        follower: Changes plans as the prevalence does; None if the scheme was given.
        unfinished: Chunks whose decoder stopped early; their verdicts have a note.
    """

    meter: CostMeter
    prevalence: PrevalenceEstimator = field(default_factory=PrevalenceEstimator)
    flagged: int = 0
    clear: int = 0
    errors: int = 0
    follower: PlanFollower | None = None
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
        return None if self.follower is None else self.follower.first.describe()

    def plan_changes(self) -> list[str]:
        """Every change of plan, for people; a resumed run tells those before it was stopped too."""
        return [] if self.follower is None else [str(switch) for switch in self.follower.switches]

    def count(self, verdicts: Sequence[Verdict]) -> None:
        """Count verdicts."""
        for verdict in verdicts:
            self.flagged += verdict.status == "flagged"
            self.clear += verdict.status == "clear"
            self.errors += verdict.status == "error"

    def state(self) -> dict[str, Any]:
        """Plain values from which `restore` goes on."""
        return {
            "meter": self.meter.counts(),
            "likelihood": [round(float(value), _DIGITS) for value in self.prevalence.log_likelihood],
            "groups": self.prevalence.groups,
            "flagged": self.flagged,
            "clear": self.clear,
            "errors": self.errors,
            **({} if self.follower is None else {"plans": self.follower.state()}),
            "unfinished": self.unfinished,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier run's state."""
        self.meter.add(state["meter"])
        self.prevalence.log_likelihood += np.array(state["likelihood"])
        self.prevalence.groups += state["groups"]
        for name in ("flagged", "clear", "errors", "unfinished"):
            setattr(self, name, getattr(self, name) + state[name])
        if self.follower is not None:
            self.follower.restore(state["plans"])


class Moderator:
    """Judges images with a bundle, by a scheme.

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
        scheme: The scheme; with plans, that of the present one.
        seed: The seed, which is also in every verdict.
        totals: Counts, cost and estimated prevalence of the last source, while and after it is moderated.
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
        self._networks = networks
        self._evidence = Evidence(bundle.calibration)
        self._threads = reading_threads or min(8, os.cpu_count() or 1)
        if not 1 <= frames <= MAX_FRAMES:
            raise ValueError(f"frames={frames}, but it must lie between 1 and {MAX_FRAMES}")
        self._frames = frames
        self.totals = self._new_totals()
        if isinstance(self.scheme, PooledScheme):
            _ = self.scheme.design  # complains at once if there is no such design

    @property
    def scheme(self) -> Scheme:
        """The scheme that decides about the next chunk."""
        if self.totals.follower is not None:
            return self.totals.follower.scheme
        assert self._scheme is not None
        return self._scheme

    @property
    def description(self) -> str:
        """The scheme with its parameters, or all plans that may be followed: the same for the whole run."""
        return str(self.totals.follower or self._scheme)

    @classmethod
    def load(
        cls,
        bundle: str | os.PathLike[str],
        *,
        engine: str = "auto",
        scheme: str = "auto",
        target: Target | None = None,
        plan: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        precision: Literal["fp32", "low"] = "fp32",
        frames: int = 1,
        **parameters: Any,
    ) -> Moderator:
        """Load a bundle and make it ready.

        Args:
            bundle: A folder, or the name of a bundle that comes with the package.
            engine: "openvino", "onnxruntime", "torch", or "auto" for the best that is installed.
            scheme: "auto", "adaptive", "individual", "dorfman", "oneshot", "cascade" or "glance". "auto"
                follows the cheapest plan for the prevalence of the images; a bundle without recordings, for
                which there are no plans, is run with "adaptive".
            target: What the plans of "auto" must reach; by default a sensitivity within one point of
                individual testing, and no worse a specificity.
            plan: File of a plan, in place of scheme and parameters.
            seed: As above.
            threads: Threads that the engine computes on.
            batch_size: Images or pools that go through the network at once.
            precision: "fp32", or "low" for half precision where engine and processor have it.
            frames: As above.
            parameters: The scheme's own: pool_size, prevalence, chunk, ...; None stands for the default.
        """
        from poolsieve.bundles import load_bundle
        from poolsieve.engines import open_engine
        from poolsieve.schemes.graphs import used_graphs

        loaded = load_bundle(bundle)
        made, prevalence = choose_scheme(loaded, scheme, target, plan, parameters)
        opened = open_engine(loaded, engine, threads=threads, precision=precision, batch_size=batch_size)
        sizes = loaded.config.pool_sizes
        first = made if isinstance(made, Scheme) else PlanFollower(made, sizes, prevalence).scheme
        opened.prepare(used_graphs(first, loaded.config))  # meanwhile the design is made and images are read
        return cls(loaded, opened, made, prevalence=prevalence, seed=seed, frames=frames)

    def moderate(self, source: AnySource, *, column: str | None = None) -> Iterator[Verdict]:
        """Judge all images of a source; verdicts come in its order.

        Args:
            source: A folder, file, CSV or JSONL file, archive, `-`, sequence of these, or arrays; see
                `poolsieve.images.sources.list_items`.
            column: Column of the paths in a CSV or JSONL file.
        """
        return (verdict for chunk in self.moderate_chunks(source, column=column) for verdict in chunk)

    def moderate_chunks(
        self,
        source: AnySource,
        *,
        column: str | None = None,
        done: Iterable[str] = (),
        state: dict[str, Any] | None = None,
    ) -> Iterator[tuple[Verdict, ...]]:
        """Judge all images of a source, a whole chunk at a time.

        Args:
            source: As in `moderate`.
            column: As in `moderate`.
            done: Names of the images that an earlier run judged, in order: whole chunks from the start on.
            state: What that run's `totals.state()` was then.

        Raises:
            ValueError: If the source does not begin with the images that are done.
        """
        self.totals = self._new_totals()
        if state is not None:
            self.totals.restore(state)
        items = list_items(source, column=column)
        count = _pass_over(items, done)
        number, left = divmod(count, self.scheme.chunk_size)
        if left and next(items, None) is not None:
            raise ValueError(f"the source ended after {count} images when the run began, and has more now")
        return self._chunks(items, number)

    def _new_totals(self) -> Totals:
        follower = None
        if self._plans is not None:
            follower = PlanFollower(self._plans, self.bundle.config.pool_sizes, self._prevalence)
        return Totals(CostMeter(self.bundle.config.cost), follower=follower)

    def _chunks(self, items: Iterator[Item], number: int) -> Iterator[tuple[Verdict, ...]]:
        size = self.scheme.chunk_size
        ahead = max(2 * size, 2 * self._threads)
        prepared = read_ahead(items, self._prepare, threads=self._threads, ahead=ahead)
        while True:
            with self.totals.meter.time("reading"):
                images = list(islice(prepared, size))
            if not images:
                return
            verdicts = self._judge(images, number)
            self.totals.count(verdicts)
            yield verdicts
            number += 1

    def _prepare(self, item: Item, data: Loaded) -> _Prepared:
        config = self.bundle.config
        views = read_views(item, data, size=config.input_size, squaring=config.squaring, frames=self._frames)
        first = views.pixels[0] if views.pixels else None
        return _Prepared(item.name, views.sha256, first, views.pixels[1:], views.reason)

    def _judge(self, images: Sequence[_Prepared], number: int) -> tuple[Verdict, ...]:
        """Verdicts on one chunk."""
        first = number * self.scheme.chunk_size
        readable = [image.pixels for image in images if image.pixels is not None]
        places = np.array([k for k, image in enumerate(images) if image.pixels is not None], dtype=np.intp)
        verdicts = [self._error(image, first + k, number) for k, image in enumerate(images)]
        if not readable:
            return tuple(verdicts)
        chunk = Chunk(
            self._networks,
            self._evidence,
            self.totals.meter,
            np.stack(readable),
            places,
            len(images),
            gated=self.bundle.config.merge == "gated",
        )
        scheme = self.scheme
        decision = scheme.decide(chunk, np.random.Generator(np.random.PCG64([self.seed, number])))
        self.totals.prevalence.add(decision.likelihoods, decision.group_sizes, decision.group_weight)
        if self.totals.follower is not None:
            self.totals.follower.observe(decision, len(chunk), number)
        self.totals.unfinished += decision.note is not None
        readings = _pool_readings(decision, first + places)
        for k, place in enumerate(places):
            verdicts[place] = Verdict(
                path=images[place].name,
                sha256=images[place].sha256,
                status="flagged" if decision.flags[k] else "clear",
                score=_rounded(decision.scores, k),
                decided_by=str(decision.decided_by[k]),
                reason=None,
                position=int(first + place),
                chunk=number,
                prior=_rounded(decision.priors, k),
                pool_score=_rounded(decision.pool_scores, k) if readings[k] else None,
                pools=readings[k],
                note=decision.note,
                bundle=self.bundle.hash,
                scheme=str(scheme),
                seed=self.seed,
            )
        self._look_at_later_frames(images, verdicts)
        return tuple(verdicts)

    def _look_at_later_frames(self, images: Sequence[_Prepared], verdicts: list[Verdict]) -> None:
        """Flag what is clear by its first frame if another frame is flagged by a test of its own."""
        later = [
            (place, number, pixels)
            for place, image in enumerate(images)
            if verdicts[place].status == "clear"
            for number, pixels in enumerate(image.later, 2)
        ]
        for start in range(0, len(later), _FRAMES_AT_ONCE):
            some = later[start : start + _FRAMES_AT_ONCE]
            chunk = Chunk(
                self._networks,
                self._evidence,
                self.totals.meter,
                np.stack([pixels for _, _, pixels in some]),
                np.arange(len(some)),
                len(some),
                gated=False,
            )
            decision = Individual(threshold=self.scheme.threshold).decide(chunk, np.random.default_rng(0))
            for k, (place, number, _) in enumerate(some):
                score = _rounded(decision.scores, k)
                before = verdicts[place]
                worse = before.status == "clear" or (score or 0.0) > (before.score or 0.0)
                if decision.flags[k] and worse:
                    shown = f"flagged by frame {number} of {len(images[place].later) + 1} that were looked at"
                    verdicts[place] = replace(
                        before, status="flagged", score=score, decided_by="individual", note=shown
                    )

    def _error(self, image: _Prepared, position: int, number: int) -> Verdict:
        return Verdict(
            path=image.name,
            sha256=image.sha256,
            status="error",
            score=None,
            decided_by=None,
            reason=image.reason,
            position=position,
            chunk=number,
            prior=None,
            pool_score=None,
            pools=(),
            note=None,
            bundle=self.bundle.hash,
            scheme=str(self.scheme),
            seed=self.seed,
        )


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


def _pool_readings(decision: Decision, positions: NDArray[np.intp]) -> list[tuple[PoolReading, ...]]:
    """The pools of each readable image, whose positions in the source are given."""
    pooling, readings = decision.pooling, decision.readings
    if pooling is None or readings is None or readings.log_likelihoods is None:
        return [()] * len(positions)
    pools = []
    for q, size in enumerate(pooling.pool_sizes):
        chances = softmax(readings.log_likelihoods[0, q, : size + 1].astype(np.float64))
        pools.append(
            PoolReading(
                number=q,
                members=tuple(int(positions[j]) for j in pooling.pools[q, :size]),
                count=int(readings.counts[0, q]),
                chances=tuple(round(float(chance), _DIGITS) for chance in chances),
            )
        )
    return [tuple(pools[q] for q in of_image if q >= 0) for of_image in pooling.pools_of]


def _rounded(values: NDArray[np.float64] | None, k: int) -> float | None:
    return None if values is None else round(float(values[k]), _DIGITS)
