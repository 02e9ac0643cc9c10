"""The methods that an evaluation compares, and how each is set up on validation images.

To add one, derive from `Competitor` and put it into `COMPETITORS`.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders import DecoderChoice, parse_decoder
from poolsieve.evaluation.context import EvaluationContext
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.schemes import DisjointPools, Scheme, Test, make_scheme
from poolsieve.schemes.glance_look import Glance
from poolsieve.schemes.scheme import SCHEMES

NetworkKind = Literal["whole", "half", "binary"]
"""Networks that methods run: the bundle's own, these at half size, and those of its binary edition."""
NOT_TUNED = "defaults"
"""What is said of methods that there were no validation images for."""
EQUAL = 0.01
"""Detection counts as equal to individual testing if the product of sensitivity and specificity is less by no
more than this."""


@dataclass(frozen=True)
class Setup:
    """A scheme that is ready to be measured.

    Attributes:
        scheme: The scheme.
        tuned: What was chosen on validation images, for people; empty if nothing was.
    """

    scheme: Scheme
    tuned: str = ""


@dataclass(frozen=True)
class Competitor(ABC):
    """One line of the comparison.

    Attributes:
        name: On the command line and in tables.
        title: In figures.
        half: Whether it looks at images of half the side.
        binary: Whether it reads the pooled networks of the bundle's binary edition (the paper's BPNN).
        glances: Whether it needs a bundle with a glance.
        planned: Whether it needs a bundle with recordings to plan from.
        by_name: Whether it is run only if it is asked for by its name.
        least_pools: Pools that every image must be in; with small pools it is left out.
    """

    name: str
    title: str
    half: bool = False
    binary: bool = False
    glances: bool = False
    planned: bool = False
    by_name: bool = False
    least_pools: int = 1

    @property
    def networks(self) -> NetworkKind:
        """Which networks it runs."""
        return "half" if self.half else "binary" if self.binary else "whole"

    @property
    def reads_counts(self) -> bool:
        """Whether it needs networks that count, and not only tell whether a pool is clean."""
        return False

    @abstractmethod
    def prepare(self, tuning: EvaluationContext) -> Setup:
        """Set the method up for the prevalence of a mixture of validation images.

        If there are no images (`EvaluationContext.has_images`), by its defaults.
        """

    def variants(self, context: EvaluationContext) -> Iterator[Scheme]:
        """Schemes with other trade-offs of cost and detection, for the frontier; none by default."""
        return iter(())


@dataclass(frozen=True)
class FixedScheme(Competitor):
    """A scheme with nothing to tune.

    Attributes:
        scheme: Its name.
        parameters: Its parameters beside the prevalence, which is that of the mixture.
    """

    scheme: str = "individual"
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """The scheme as it is."""
        return Setup(scheme_for(self.scheme, tuning, **self.parameters))


@dataclass(frozen=True)
class Rounds(Competitor):
    """Disjoint pools of every size that there are networks for, from the largest on, then single images.

    With two sizes these are the three rounds of Neural Group Testing (Liang and Zou 2021, algorithm 2).
    """

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """The rounds."""
        sizes = sorted(tuning.pool_sizes, reverse=True)
        rounds = Scheme((*map(DisjointPools, sizes), Test()), prevalence=min(tuning.mixture.prevalence, 0.5))
        return Setup(rounds, f"pools of {', '.join(map(str, sizes))}")


@dataclass(frozen=True)
class LikelierClass(Competitor):
    """Individual testing by the likelier of the network's two outputs, as in the paper (eq:inn).

    Calibrated scores rise with the difference of the outputs, so that this is individual testing with the
    score of equal outputs as the threshold.
    """

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """The scheme with that threshold."""
        equal = float(tuning.likelihoods.image_scores(np.zeros((1, 2), dtype=np.float32))[0])
        return Setup(make_scheme("individual", tuning.pool_sizes, threshold=equal), f"threshold={equal:.3g}")


@dataclass(frozen=True)
class TunedDecoder(Competitor):
    """The one-shot scheme with a decoder tuned for sensitivity × specificity, as in the paper.

    Attributes:
        decoder: In its text form; parameters that it gives are kept.
    """

    decoder: str = "mip"

    @property
    def reads_counts(self) -> bool:
        """Whether the decoder does."""
        return parse_decoder(self.decoder).decoder.reads_counts

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """Search the decoder's own grid; the first of equally good points wins."""
        choice = parse_decoder(self.decoder)
        grid = {
            name: values for name, values in choice.decoder.default_grid.items() if name not in choice.fixed
        }
        if not grid or not tuning.has_images:
            return Setup(scheme_for("oneshot", tuning, decoder=self.decoder), NOT_TUNED if grid else "")
        # Flags of some decoders are scores above a threshold: one run then does for all thresholds.
        scanned = grid.pop("threshold", (None,)) if choice.decoder.thresholds_scores else (None,)
        best: tuple[float, DecoderChoice] | None = None
        for values in itertools.product(*grid.values()):
            given = dict(zip(grid, values, strict=True))
            candidate = tuning.run(scheme_for("oneshot", tuning, decoder=str(_with(choice, given))))
            for threshold in scanned:
                found = candidate.flags if threshold is None else candidate.pool_scores > threshold
                flags = np.where(candidate.tested, candidate.flags, found)
                changed = _with(choice, given if threshold is None else {**given, "threshold": threshold})
                product = detection_product(tuning.mixture, flags)
                if best is None or product > best[0]:
                    best = product, changed
        assert best is not None
        decoder = best[1]
        tuned = ", ".join(
            f"{name}={decoder.decoder.parameters[name]}" for name in decoder.fixed if name not in choice.fixed
        )
        return Setup(scheme_for("oneshot", tuning, decoder=str(decoder)), tuned)


@dataclass(frozen=True)
class TunedScheme(Competitor):
    """A scheme that trades cost for detection: its cheapest setting that detects like individual testing.

    If none does, the setting with the largest product of sensitivity and specificity.

    Attributes:
        scheme: Its name.
    """

    scheme: str = "adaptive"

    @property
    def grid(self) -> dict[str, tuple[Any, ...]]:
        """Values to try of its parameters: what its stages find worth searching."""
        return Scheme(SCHEMES[self.scheme]).grid()

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """Try every setting."""
        if not tuning.has_images:
            return Setup(scheme_for(self.scheme, tuning), NOT_TUNED)
        individual = tuning.run(make_scheme("individual", tuning.pool_sizes))
        wanted = detection_product(tuning.mixture, individual.flags) - EQUAL
        found = []
        for scheme in self.variants(tuning):
            candidate = tuning.run(scheme)
            product = detection_product(tuning.mixture, candidate.flags)
            found.append((product, -candidate.meter.multiply_adds, scheme))
        equal = [entry for entry in found if entry[0] >= wanted]
        chosen = max(equal, key=lambda entry: entry[1]) if equal else max(found, key=lambda entry: entry[:2])
        scheme = chosen[2]
        values = scheme.parameters()
        tuned = ", ".join(f"{name}={values[name]}" for name in self.grid)
        return Setup(scheme, tuned if equal else f"{tuned} (below individual testing)")

    def variants(self, context: EvaluationContext) -> Iterator[Scheme]:
        """All settings."""
        for values in itertools.product(*self.grid.values()):
            yield scheme_for(self.scheme, context, **dict(zip(self.grid, values, strict=True)))


@dataclass(frozen=True)
class PlannedScheme(Competitor):
    """The plan that the bundle's recordings suggest for the prevalence, as `moderate` follows it.

    Attributes:
        only: Plan with this scheme alone; None for the cheapest of all.
    """

    only: str | None = None

    def prepare(self, tuning: EvaluationContext) -> Setup:
        """Plan; recordings are of validation images too."""
        from poolsieve.planning import Target, search

        if tuning.recordings is None:
            raise ValueError("the bundle has no recordings to plan from")
        prevalence = min(tuning.mixture.prevalence, 0.5)
        found = search(
            tuning.recordings, prevalence, Target(), tuning.pool_sizes, tuning.price, gated=tuning.gated
        )
        plans = [plan for plan in found.plans if self.only in (None, plan.scheme)]
        if not plans:
            return Setup(make_scheme("individual", tuning.pool_sizes), f"no {self.only} meets the target")
        return Setup(
            make_scheme(plans[0].scheme, tuning.pool_sizes, **plans[0].parameters), plans[0].describe()
        )


COMPETITORS: dict[str, Competitor] = {
    competitor.name: competitor
    for competitor in (
        FixedScheme("individual", "Individual"),
        LikelierClass("individual-argmax", "Individual, arg max"),
        FixedScheme("dorfman", "Dorfman", scheme="dorfman"),
        FixedScheme(
            "dorfman-recompute", "Dorfman, whole networks", scheme="dorfman", parameters={"recompute": True}
        ),
        Rounds("rounds", "Rounds of smaller pools", by_name=True),
        TunedDecoder("comp", "COMP", decoder="comp"),
        TunedDecoder("ncomp-2", "NCOMP-2", least_pools=3, decoder="ncomp:t=2"),
        TunedDecoder("classo", "CLasso", decoder="classo"),
        TunedDecoder("mip", "MIP", decoder="mip"),
        TunedDecoder("bp-hard", "BP, hard", decoder="bp-hard"),
        TunedDecoder("bp", "BP, soft", decoder="bp"),
        TunedScheme("glance", "Glance", glances=True, scheme="glance"),
        TunedScheme("cascade", "Cascade", scheme="cascade"),
        TunedScheme("adaptive", "Adaptive", scheme="adaptive"),
        PlannedScheme("auto", "Planned", planned=True),
        PlannedScheme("adaptive-planned", "Adaptive, planned", planned=True, by_name=True, only="adaptive"),
        FixedScheme("downsample", "Downsample", half=True),
        TunedDecoder("downsample-comp", "COMP, half size", half=True, decoder="comp"),
        TunedDecoder(
            "downsample-ncomp-2", "NCOMP-2, half size", half=True, least_pools=3, decoder="ncomp:t=2"
        ),
        TunedDecoder("downsample-classo", "CLasso, half size", half=True, decoder="classo"),
        TunedDecoder("downsample-mip", "MIP, half size", half=True, decoder="mip"),
        TunedDecoder("downsample-bp", "BP soft, half size", half=True, decoder="bp"),
        FixedScheme("dorfman-binary", "Dorfman, binary", binary=True, scheme="dorfman"),
        TunedDecoder("comp-binary", "COMP, binary", binary=True, decoder="comp"),
        TunedDecoder("ncomp-2-binary", "NCOMP-2, binary", binary=True, least_pools=3, decoder="ncomp:t=2"),
        TunedDecoder("bp-binary", "BP soft, binary", binary=True, decoder="bp"),
        TunedScheme("adaptive-binary", "Adaptive, binary", binary=True, scheme="adaptive"),
    )
}
"""All methods by name, in the order in which they are shown."""


def list_competitors() -> dict[str, Competitor]:
    """All methods by name: those of `COMPETITORS`, and every other scheme of the table as its stages tell."""
    covered = {getattr(competitor, "scheme", "oneshot") for competitor in COMPETITORS.values()}
    found = dict(COMPETITORS)
    for name in SCHEMES:
        if name not in covered:
            kind = TunedScheme if Scheme(SCHEMES[name]).grid() else FixedScheme
            glances = any(stage.name == Glance.name for stage in SCHEMES[name])
            found[name] = kind(name, name.replace("_", " ").capitalize(), glances=glances, scheme=name)
    return found


def choose_competitors(names: Sequence[str] | None = None) -> list[Competitor]:
    """Competitors by name, individual testing always first; all of them by default.

    Raises:
        ValueError: A name is unknown; the message lists what there is.
    """
    known = list_competitors()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no method is named {unknown[0]!r}; there are {', '.join(known)}")
    usual = [name for name, competitor in known.items() if not competitor.by_name]
    wanted = {"individual", *(usual if names is None else names)}
    return [competitor for name, competitor in known.items() if name in wanted]


def scheme_for(name: str, context: EvaluationContext, **parameters: Any) -> Scheme:
    """A scheme for the networks and the prevalence of a context."""
    if name != "individual":
        parameters.setdefault("prevalence", min(context.mixture.prevalence, 0.5))
    if name == "oneshot":
        parameters.setdefault("pools_per_image", pools_per_image(context.pool_sizes))
    return make_scheme(name, context.pool_sizes, **parameters)


def pools_per_image(pool_sizes: Sequence[int]) -> int:
    """Of one-shot pools: as in the paper, but at most half as many small pools as images."""
    return min(4, max(1, max(pool_sizes) // 2))


def detection_product(mixture: Mixture, flags: NDArray[np.bool_]) -> float:
    """Sensitivity × specificity, what the paper maximises."""
    return float(flags[mixture.bad].mean() * (~flags[~mixture.bad]).mean())


def _with(choice: DecoderChoice, values: Mapping[str, Any]) -> DecoderChoice:
    fixed = (*choice.fixed, *(name for name in values if name not in choice.fixed))
    return DecoderChoice(choice.decoder.replace(**values), choice.soft, fixed)
