"""What every stage thought of an image, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from poolsieve.schemes.scheme_texts import decider, looks_at, stages_of


def opinions(
    grounds: Mapping[str, Any], status: str, score: float | None, decided_by: str | None
) -> list[str]:
    """Lines such as "first look .63", "tested alone .985", "threshold .5", in the order of the stages."""
    lines = []
    prior, scheme = grounds.get("prior"), str(grounds.get("scheme"))
    looks = looks_at(scheme, decided_by)
    # Without pools some look told it, also where the stages are somebody's own and not known here.
    if prior is not None and (looks.prior_of == "first" or not (stages_of(scheme) or grounds.get("pools"))):
        lines.append(f"first look{'s' * (len(looks.first) > 1)} {number(prior)}")
    if pools := grounds.get("pools"):
        lines.append(_pools(pools))
    if (pool_score := grounds.get("pool_score")) is not None:
        lines.append(f"score from its pools {number(pool_score)}")
    if prior is not None and looks.prior_of == "later":
        lines.append(f"look after its pools {number(prior)}")
    if decided_by == "individual" and score is not None:
        lines.append(f"tested alone {number(score)}")
    elif decided_by is not None and score is not None:
        lines.append(f"{status} by {decider(scheme, decided_by)} with score {number(score)}")
    if (threshold := grounds.get("threshold")) is not None:
        lines.append(f"threshold {number(threshold)}")
    if grounds.get("note"):
        lines.append(str(grounds["note"]))
    return lines


def _pools(pools: Iterable[Mapping[str, Any]]) -> str:
    told = [f"{pool['count']} bad of {pool['size']}" for pool in pools]
    return f"in {len(told)} pool{'s' * (len(told) != 1)}, read as holding {', '.join(told)}"


def number(value: float) -> str:
    """A score with up to three decimals and without the leading zero, as `.985`."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
