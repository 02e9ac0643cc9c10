"""Policies: bundles that are served, each with what decides by it and what it has learnt so far."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.engines import open_engine, settle_precision
from poolsieve.engines.editions import WantedPrecision
from poolsieve.images.views import ViewRequest
from poolsieve.moderation import Moderator, PreparedImage, Run, Verdict
from poolsieve.planning.choosing import choose_scheme
from poolsieve.planning.plans import Plan, Target
from poolsieve.schemes import Scheme, make_scheme
from poolsieve.schemes.runner import Networks
from poolsieve.schemes.scheme import SCHEMES
from poolsieve.serving.batching import Line
from poolsieve.serving.knees import find_knee
from poolsieve.serving.run_times import RunTimes

_WARM_UP = (1, 4, 16)
"""Sizes of the chunks that are judged before the first request."""


@dataclass(frozen=True)
class JudgedChunk:
    """What a policy says of a chunk.

    Attributes:
        verdicts: Of its images.
        scheme: By which it was decided.
        number: Of the chunk in the run; with the seed it gives the same verdicts again.
        seed: Of the moderator.
        cost: Share of testing every image individually.
        seconds: In each kind of work.
    """

    verdicts: tuple[Verdict, ...]
    scheme: Scheme
    number: int
    seed: int
    cost: float
    seconds: Mapping[str, float]


class Policy:
    """One bundle as it is served. Chunks are judged by one thread; `prepare` is for any.

    Args:
        name: What requests call it.
        bundle: What was trained.
        networks: An engine that runs it.
        decides: A scheme, or plans for ascending prevalences.
        prevalence: The expected share of bad images, if it is stated.
        seed: Decides who shares a pool with whom; None draws a secret one.

    Raises:
        ValueError: The scheme decides by pools alone: who sends many images could wear a chunk's pools out.
    """

    def __init__(
        self,
        name: str,
        bundle: Bundle,
        networks: Networks,
        decides: Scheme | Sequence[Plan],
        *,
        prevalence: float | None = None,
        seed: int | None = None,
    ) -> None:
        self.name, self.bundle = name, bundle
        self._networks, self._given, self._prevalence = networks, decides, prevalence
        self._decides = decides
        self.moderator = Moderator(bundle, networks, decides, prevalence=prevalence, seed=seed)
        self.run: Run = self.moderator.new_run()
        self.threshold: float | None = None
        self.plan: Plan | None = None
        _check_served(self.scheme)
        self.line: Line[Any] = Line(self.moderator.chunk_size(self.run), 1, RunTimes())
        self._knee_of = ""
        self._find_knee()

    @property
    def scheme(self) -> Scheme:
        """The scheme that decides about the next chunk."""
        controller = self.run.totals.controller
        return self.moderator.scheme if controller is None else controller.scheme

    @property
    def promise(self) -> dict[str, Any]:
        """The threshold and the text of what is in force, before people changed it; a plan's rates too."""
        if isinstance(self._decides, Scheme):
            return {"threshold": self._decides.threshold, "plan": str(self._decides)}
        controller = self.run.totals.controller
        assert controller is not None
        plan = self._decides[controller.place]
        return {
            "sensitivity": plan.sensitivity.value,
            "specificity": plan.specificity.value,
            "cost": plan.cost.value,
            "prevalence": plan.prevalence,
            "threshold": self.scheme_of(plan).threshold,
            "plan": plan.describe(),
        }

    def scheme_of(self, plan: Plan) -> Scheme:
        """The scheme that a plan is about."""
        return make_scheme(plan.scheme, self.bundle.config.pool_sizes, **plan.parameters)

    def can_follow(self, plan: Plan) -> bool:
        """Whether the plan can be applied to this policy."""
        try:
            _check_served(self.scheme_of(plan))
        except ValueError:
            return False
        return True

    @property
    def view(self) -> ViewRequest:
        """What images are brought to; policies with the same can share what was read."""
        return self.moderator.view

    def prepare(self, data: bytes, name: str) -> PreparedImage:
        """Read one image; one that cannot be read is told so by its verdict."""
        return self.moderator.prepare(data, name=name)

    def warm_up(self, clock: Any) -> None:
        """Judge a few chunks of noise in a run of their own, which shows how long chunks take."""
        rng, run = np.random.default_rng(0), self.moderator.new_run()
        side = self.bundle.config.input_size
        for _ in range(2):  # the first round is slower than any later one
            self.line.times = RunTimes()
            for size in (*_WARM_UP, self.line.full):
                noise = rng.integers(0, 256, (size, side, side, 3), dtype=np.uint8)
                images = [PreparedImage("warm-up", None, pixels, None) for pixels in noise]
                begin = clock()
                self.moderator.judge_chunk(images, run)
                self.line.times.add(size, clock() - begin, clock())

    def judge(self, images: Sequence[PreparedImage]) -> JudgedChunk:
        """Judge the next chunk."""
        scheme, number, meter = self.scheme, self.run.chunk, self.run.totals.meter
        before, paid, read = dict(meter.seconds), meter.multiply_adds, meter.images
        verdicts = self.moderator.judge_chunk(images, self.run)
        seconds = {part: spent - before.get(part, 0.0) for part, spent in meter.seconds.items()}
        cost = (meter.multiply_adds - paid) / max(1.0, (meter.images - read) * meter.price.whole)
        self._find_knee()
        return JudgedChunk(verdicts, scheme, number, self.moderator.seed, cost, seconds)

    def apply(self, plan: Plan | None, threshold: float | None) -> None:
        """Follow a plan, or what was given at the start, and flag above another score, or the plan's own.

        What was learnt of the prevalence goes on.

        Raises:
            ValueError: The plan cannot be served.
        """
        if (plan, threshold) == (self.plan, self.threshold):
            return
        if plan is not None:
            _check_served(self.scheme_of(plan))
        followed = self._given if plan is None else (plan,)
        decides = followed if threshold is None else _with_threshold(followed, threshold)
        moderator = Moderator(
            *(self.bundle, self._networks, decides), prevalence=self._prevalence, seed=self.moderator.seed
        )
        before, run = self.run, moderator.new_run()
        size = moderator.chunk_size(run)
        if size != self.line.full:  # a chunk of that size may be on its way
            raise ValueError(f"a plan with chunks of {size}, but chunks of {self.line.full} are served")
        state = before.totals.state()
        if plan != self.plan and run.totals.controller is not None:
            known = state.pop("plans", None)
            if known is not None:
                run.totals.controller.adopt(known)
        run.totals.restore(state)
        run.chunk, run.position = before.chunk, before.position
        self.moderator, self.run, self._decides = moderator, run, followed
        self.plan, self.threshold = plan, threshold
        self._find_knee()

    def _find_knee(self) -> None:
        if self._knee_of != str(self.scheme):
            self._knee_of = str(self.scheme)
            self.line.knee = find_knee(self.scheme, self.bundle.config)


def _check_served(scheme: Scheme) -> None:
    if scheme.stages[-1].pools:
        served = [name for name, stages in sorted(SCHEMES.items()) if not stages[-1].pools]
        raise ValueError(
            f"{scheme.name} decides by pools alone, where images can hide each other; serve with "
            f"{', '.join(('auto', *served))}"
        )


def _with_threshold(decides: Scheme | Sequence[Plan], threshold: float) -> Scheme | tuple[Plan, ...]:
    if isinstance(decides, Scheme):
        last = replace(decides.stages[-1], threshold=threshold)  # type: ignore[call-arg]
        return replace(decides, stages=(*decides.stages[:-1], last))
    return tuple(replace(plan, parameters={**plan.parameters, "threshold": threshold}) for plan in decides)


def load_policies(
    bundles: Sequence[str | os.PathLike[str]],
    *,
    scheme: str = "auto",
    engine: str = "auto",
    target: Target | None = None,
    threads: int | None = None,
    precision: WantedPrecision = "auto",
    seed: int | None = None,
    **parameters: Any,
) -> dict[str, Policy]:
    """Load bundles by their names.

    Args:
        bundles: Folders, or names of bundles that come with the package.
        scheme: As in `Moderator.load`; what decides by pools alone is refused.
        engine: As there.
        target: As there.
        threads: Threads that the engine computes on.
        precision: As in `Moderator.load`.
        seed: For tests; None draws a secret one for each.
        parameters: The scheme's.

    Raises:
        ValueError: Two have one name, or one cannot be served.
    """
    policies: dict[str, Policy] = {}
    for place in bundles:
        bundle = load_bundle(place)
        if bundle.name in policies:
            raise ValueError(f"two bundles are named {bundle.name}; rename the folder of one")
        settled, bundle = settle_precision(bundle, engine, precision)
        decides, prevalence = choose_scheme(bundle, scheme, target, None, parameters)
        networks = open_engine(bundle, engine, threads=threads, precision=settled)
        policies[bundle.name] = Policy(
            bundle.name, bundle, networks, decides, prevalence=prevalence, seed=seed
        )
    return policies
