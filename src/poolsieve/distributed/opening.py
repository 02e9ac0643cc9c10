"""What a worker needs to make its moderator, and a driver to know what will be followed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from poolsieve.planning.choosing import AUTO, choose_scheme
from poolsieve.planning.plan_controller import PlanController
from poolsieve.planning.plans import Plan, Target
from poolsieve.schemes import Scheme

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.editions import WantedPrecision
    from poolsieve.moderation import Moderator


@dataclass(frozen=True)
class Chosen:
    """What decides about the chunks of a run.

    Attributes:
        bundle: The bundle.
        scheme: A scheme, or plans for ascending prevalences.
        prevalence: With plans, the stated share of bad images; None if unknown.
    """

    bundle: Bundle
    scheme: Scheme | Sequence[Plan]
    prevalence: float | None

    def controller(self) -> PlanController | None:
        """What chooses among plans, as at the beginning of a run; None if the scheme was given."""
        if isinstance(self.scheme, Scheme):
            return None
        return PlanController(self.scheme, self.bundle.config.pool_sizes, self.prevalence)


class Opening(Protocol):
    """Makes moderators of one kind; it is sent to workers, so it must be possible to pickle it."""

    def choose(self) -> Chosen:
        """What will decide, without an engine."""

    def open(self, seed: int, threads: int | None) -> Moderator:
        """A moderator whose engine computes on so many threads."""


@dataclass(frozen=True)
class BundleOpening:
    """Opens a bundle as `Moderator.load` does.

    Attributes:
        bundle: A folder, also in an object store, or the name of a bundle that comes with the package.
        options: Of `Moderator.load`, but for seed and threads; plain values, the target as a dict of its own.
            A precision of "auto", which is the default, is settled here once, for all processors.
    """

    bundle: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from poolsieve.bundles import load_bundle

        if self.options.get("precision", "auto") == "auto":
            precision, _ = self._settle(load_bundle(self.bundle), "auto")
            object.__setattr__(self, "options", {**self.options, "precision": precision})

    def choose(self) -> Chosen:
        """What will decide, without an engine."""
        from poolsieve.bundles import load_bundle

        of_engine = ("engine", "batch_size", "precision", "frames")
        given = {name: value for name, value in self.options.items() if name not in of_engine}
        _, bundle = self._settle(load_bundle(self.bundle), self.options["precision"])
        given["target"] = self._target()
        scheme, target, plan = (given.pop(name, None) for name in ("scheme", "target", "plan"))
        return Chosen(bundle, *choose_scheme(bundle, scheme or AUTO, target, plan, given))

    def _settle(self, bundle: Bundle, precision: WantedPrecision) -> tuple[str, Bundle]:
        from poolsieve.engines import settle_precision

        engine, planned = self.options.get("engine") or "auto", self.options.get("plan") is not None
        return settle_precision(bundle, engine, precision, planned=planned)

    def _target(self) -> Target | None:
        values = self.options.get("target")
        return None if values is None else Target(**values)

    def open(self, seed: int, threads: int | None) -> Moderator:
        """A moderator whose engine computes on so many threads."""
        from poolsieve.moderation import Moderator

        return Moderator.load(
            self.bundle, seed=seed, threads=threads, **{**self.options, "target": self._target()}
        )


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
