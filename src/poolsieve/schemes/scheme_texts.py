"""What the stages of a scheme did with an image, told from the scheme's text in its verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from poolsieve.schemes.look import Look
from poolsieve.schemes.scheme import (
    BETWEEN_STAGES,
    SCHEMES,
    parameter_names,
    with_parameters,
    without_prior_head,
)
from poolsieve.schemes.stages import Stage, find_stage


@dataclass(frozen=True)
class Looks:
    """The looks at an image by itself that its posterior rests on.

    Attributes:
        first: Before all pools, in their order.
        later: After the first pools.
        prior_of: Which of them the verdict's `prior` was the posterior after; None if that cannot be told.
    """

    first: tuple[Look, ...] = ()
    later: tuple[Look, ...] = ()
    prior_of: Literal["first", "later"] | None = None


def looks_at(scheme: str, decided_by: str | None) -> Looks:
    """The looks that an image had.

    Args:
        scheme: The scheme's text.
        decided_by: Who decided about the image.
    """
    stages = stages_of(scheme)
    rounds = [place for place, stage in enumerate(stages) if stage.pools]
    split = rounds[0] if rounds else len(stages)
    looks = {
        place: stage
        for place, stage in enumerate(stages)
        if isinstance(stage, Look) and (stage.bounded or _ask_for_posteriors(stages[place + 1 :]))
    }
    names = [stage.name for stage in stages]
    end = len(stages)
    if decided_by == "pools":  # it may have been the first of several rounds
        end = split
    elif decided_by in names:
        end = names.index(decided_by)
    first = tuple(look for place, look in looks.items() if place < split and place <= end)
    later = {place: look for place, look in looks.items() if split < place <= end}
    prior_of: Literal["first", "later"] | None = None
    if later and max(later) > rounds[-1]:
        prior_of = "later"
    elif first and max(looks) < split and len(rounds) < 2 and not stages[-1].pools:
        prior_of = (
            "first"  # a later look or round takes its own prior, and a decoder may doubt the stated one
        )
    return Looks(first, tuple(later.values()), prior_of)


def _ask_for_posteriors(stages: Iterable[Stage]) -> bool:
    """Whether any of these stages makes a look without bounds be taken."""
    return any(stage.pools or (isinstance(stage, Look) and stage.bounded) for stage in stages)


def decider(scheme: str, decided_by: str) -> str:
    """What people call the stage that decided about an image; its name in the verdict if it is not known.

    Args:
        scheme: The scheme's text.
        decided_by: The stage in the verdict.
    """
    for stage in stages_of(scheme):
        if decided_by == ("pools" if stage.pools else stage.name):
            return stage.called
    return decided_by


@lru_cache(maxsize=256)
def stages_of(scheme: str) -> tuple[Stage, ...]:
    """The stages in the text of a scheme, the reverse of `str`; none if they are not all known here."""
    listed, _, tail = scheme.rpartition(" (chunk=")
    if listed and tail.endswith(")"):
        made = [_stage_of(text) for text in listed.split(BETWEEN_STAGES)]
        return () if None in made else tuple(stage for stage in made if stage is not None)
    name, _, inner = scheme.partition("(")
    stages = SCHEMES.get(name, ())
    for some in (stages, without_prior_head(stages)):
        given = _values_of(inner, ("chunk", "prevalence", *parameter_names(some)))
        if given is not None:
            return with_parameters(some, given)
    return ()


def _stage_of(text: str) -> Stage | None:
    name, _, inner = text.partition("(")
    kind = find_stage(name)
    given = None if kind is None else _values_of(inner, [one.name for one in fields(kind)])
    return None if kind is None or given is None else kind(**given)


def _values_of(inner: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Values of parameters in a text such as "a=1, b=mip)"; None if it does not have these parameters."""
    found = re.fullmatch(", ".join(rf"{name}=(.*)" for name in names) + r"\)", inner)
    return None if found is None else dict(zip(names, map(_value_of, found.groups()), strict=True))


def _value_of(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):  # such as the name of a decoder
        return text
