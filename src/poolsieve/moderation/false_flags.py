"""How many flags of a run are expected to be false, from what is known of detection and of the prevalence."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from poolsieve.planning.plans import Plan, load_plan
from poolsieve.schemes import Test
from poolsieve.statistics import Z95, Estimate, proportion

if TYPE_CHECKING:
    from poolsieve.moderation.judged_run import JudgedRun
    from poolsieve.moderation.moderator import Totals
    from poolsieve.planning.plan_controller import PlanController


@dataclass(frozen=True)
class DetectionRates:
    """What is known of how a run detects.

    Attributes:
        sensitivity: Expected share of bad images that are flagged.
        specificity: Expected share of clear images that are not.
        source: How that is known, in words that go on after the specificity.
        at_most: Whether the scheme flags only a part of what these rates are of.
    """

    sensitivity: Estimate
    specificity: Estimate
    source: str
    at_most: bool = False


def detection_rates(
    moderator: JudgedRun, plan: str | os.PathLike[str] | None = None
) -> DetectionRates | None:
    """What is known of how a moderator's last run detected; None if nothing is.

    Args:
        moderator: Has run.
        plan: File of the plan that it followed, if that was given.
    """
    bundle, scheme, controller = moderator.bundle, moderator.scheme, moderator.totals.controller
    promised = None if plan is None else load_plan(plan, bundle=bundle.hash)
    if isinstance(promised, Plan):
        return DetectionRates(promised.sensitivity, promised.specificity, "that its plan promises")
    if controller is not None:
        shares = _shares(controller, moderator.totals)
        return DetectionRates(
            _mean([(plan.sensitivity, share) for plan, share in shares]),
            _mean([(plan.specificity, share) for plan, share in shares]),
            "that its plans promise",
        )
    # Only what an individual test flagged is among the flags of individual testing.
    if (
        not bundle.has_recordings
        or not isinstance(scheme.stages[-1], Test)
        or any(stage.unplanned for stage in scheme.stages)
    ):
        return None
    recordings = bundle.recordings()
    flagged, bad = recordings.scores > scheme.threshold, recordings.bad
    cleared = proportion((~flagged)[~bad].sum(), (~bad).sum())
    return DetectionRates(
        proportion(flagged[bad].sum(), bad.sum()),
        cleared,
        f"of testing every image, as measured on {cleared.total:,} clear validation images",
        at_most=len(scheme.stages) > 1,
    )


def expected_false(flagged: int, prevalence: Estimate, rates: DetectionRates) -> Estimate:
    """Expected number of false ones among so many flags, with a 95% interval.

    A flag is false with the probability (1 − π)(1 − specificity) / ((1 − π)(1 − specificity) + π·sensitivity)
    at prevalence π. The interval covers what is not known of π and of the specificity, one at a time, and the
    luck of so many draws; being independent they are added as squares.
    """
    specificity = rates.specificity

    def share(pi: float, clear: float) -> float:
        false, true = (1 - pi) * (1 - clear), pi * rates.sensitivity.value
        return false / (false + true) if false + true > 0 else 0.0

    value = share(prevalence.value, specificity.value)
    luck = Z95 * math.sqrt(value * (1 - value) / max(flagged, 1))
    ends = []
    for sign, pi, clear in (
        (-1, prevalence.high, specificity.high),
        (1, prevalence.low, specificity.low),
    ):
        apart = (share(pi, specificity.value) - value, share(prevalence.value, clear) - value, luck)
        ends.append(min(max(value + sign * math.hypot(*apart), 0.0), 1.0))
    return Estimate(flagged * value, flagged * ends[0], flagged * ends[1])


def false_flags_sentence(totals: Totals, rates: DetectionRates | None) -> str:
    """How many flags of a run are expected to be false, for people; empty if there are no flags."""
    prevalence = totals.estimated_prevalence()
    if not totals.flagged or prevalence is None:
        return ""
    if rates is None:
        return "How many of these flags are false is not known: nothing was measured that tells it."
    found = expected_false(totals.flagged, prevalence, rates)
    about = "at most about" if rates.at_most else "about"
    which = f"Of these {totals.flagged:,} flags" if totals.flagged > 1 else "Of this 1 flag"
    return (
        f"{which} {about} {found.value:,.0f} ({found.low:,.0f}–{found.high:,.0f}) "
        f"{'are' if totals.flagged > 1 else 'is'} expected to be false, by the estimated share of bad images "
        f"and the specificity {rates.specificity} {rates.source} (95% intervals). That holds for images "
        "of their kind; on others, such as drawings, it may be far off."
    )


def _shares(controller: PlanController, totals: Totals) -> list[tuple[Plan, float]]:
    """The plans that were followed, and for which share of the chunks."""
    chunks = max(math.ceil(totals.images / controller.chunk_size), 1)
    plans = [controller.first, *(switch.plan for switch in controller.switches)]
    starts = [0, *(min(switch.chunk, chunks) for switch in controller.switches), chunks]
    return [
        (plan, (end - start) / chunks)
        for plan, start, end in zip(plans, starts[:-1], starts[1:], strict=True)
    ]


def _mean(rates: Sequence[tuple[Estimate, float]]) -> Estimate:
    ends = ("value", "low", "high")
    return Estimate(*(sum(share * getattr(rate, end) for rate, share in rates) for end in ends))
