"""What decides about the chunks of a run: a scheme by name, a plan from a file, or all plans of a bundle."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolsieve.planning.plans import Plan, Target, load_plan
from poolsieve.schemes import Scheme, make_scheme

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.bundles.config import BundleConfig

AUTO = "auto"
FEW_SEEN_AGAIN = 0.2
"""Decoding a JPEG of two megapixels for a small view takes .78 of the time of decoding it for a whole one, so
that images are best decoded small at first where fewer than this are seen whole later."""
_USUAL_PREVALENCE = 0.01
_LOG = logging.getLogger(__name__)


def choose_scheme(
    bundle: Bundle,
    scheme: str | Scheme,
    target: Target | None,
    plan: str | os.PathLike[str] | None,
    parameters: Mapping[str, Any],
) -> tuple[Scheme | tuple[Plan, ...], float | None]:
    """What a moderator is to follow, and the stated prevalence.

    Args:
        bundle: The bundle.
        scheme: A scheme, its name, or "auto".
        target: What the plans of "auto" must reach.
        plan: File of a plan, in place of the others.
        parameters: The scheme's; None stands for the default.

    Raises:
        ValueError: They do not go together, or are not known.
    """
    sizes = bundle.config.pool_sizes
    given = {name: value for name, value in parameters.items() if value is not None}
    if plan is not None:
        if given or target is not None or scheme != AUTO:
            other = next(iter(given), "scheme" if scheme != AUTO else "target")
            raise ValueError(f"a plan holds the scheme and all its parameters; leave out {other}")
        loaded = load_plan(plan, bundle=bundle.hash)
        if isinstance(loaded, Scheme):
            return loaded, None
        return make_scheme(loaded.scheme, sizes, **loaded.parameters), None
    if scheme != AUTO:
        if target is not None:
            raise ValueError(f"a target is for the scheme auto, not for {scheme}")
        if isinstance(scheme, Scheme):
            if given:
                raise ValueError(f"the scheme holds all its parameters; leave out {next(iter(given))}")
            return scheme, None
        return make_scheme(scheme, sizes, **given), None
    if not bundle.has_recordings:
        if target is not None:
            bundle.recordings()  # says what is missing
        _LOG.warning(
            "the bundle %s has no recordings to plan from, so the scheme is adaptive with its defaults; "
            "make them with: poolsieve bundles record",
            bundle.name,
        )
        return make_scheme("adaptive", sizes, **given), None
    prevalence, threshold = given.pop("prevalence", None), given.pop("threshold", None)
    if given:
        raise ValueError(f"the scheme auto chooses {next(iter(given))} itself; name a scheme to set it")
    from poolsieve.planning.table import table_of

    target = target or Target()
    if threshold is not None:
        target = replace(target, threshold=threshold)
    plans = table_of(bundle, target)
    missed = [one for one in plans if not one.meets_target]
    if missed:
        _LOG.warning(
            "no scheme reaches %s at a prevalence of %s. There every image is tested: the individual network "
            "itself reaches at most sensitivity %.4f at specificity %.4f on the recorded images",
            target,
            ", ".join(f"{one.prevalence:g}" for one in missed),
            missed[0].sensitivity.value,
            missed[0].specificity.value,
        )
    for note in dict.fromkeys(one.note for one in plans if one.note is not None):
        _LOG.warning("%s", note)
    return plans, prevalence


def small_views_pay(plans: Sequence[Plan], config: BundleConfig) -> bool:
    """Whether images are best decoded small at first, by the plan for a usual share of bad images.

    That is one answer for a whole run, as what a look is given must not depend on the plan in force.
    """
    plan = next((one for one in plans if one.prevalence >= _USUAL_PREVALENCE), plans[-1])
    first = make_scheme(plan.scheme, config.pool_sizes, **plan.parameters).stages[0]
    if not first.sees_small(config):
        return False
    parts = first.parts(config.cost, gated=config.merge == "gated")
    look = sum(part.cost(config.cost) for part in parts) / config.cost.whole
    return plan.cost.value - look < FEW_SEEN_AGAIN
