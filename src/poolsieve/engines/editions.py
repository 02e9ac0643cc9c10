"""Which edition of a bundle to run on this processor: the networks as they were trained, or in int8."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal, get_args

from poolsieve.bundles import Bundle
from poolsieve.engines.probing import LIMIT, probe
from poolsieve.engines.registry import SettledPrecision, resolve_engine

WantedPrecision = Literal["auto", "fp32", "low", "int8"]
"""What may be asked for; "auto" takes int8 where a bundle holds it and this processor gains by it."""
_FASTER_IN_BYTES = frozenset({"avx2", "asimddp"})
"""Instructions with which processors gain by int8: with AVX2 the networks take .55 of the time, with VNNI
behind it .35 to .5. So nearly all that are in use take it, and come to the same verdicts."""
_LIMITS_WITHOUT_THEM = ("SSE41", "AVX")


def settle_precision(
    bundle: Bundle, engine: str, precision: WantedPrecision, *, planned: bool = False
) -> tuple[SettledPrecision, Bundle]:
    """What to compute in on this machine, and what to run: the bundle, or its edition in int8.

    Args:
        bundle: What is to be run.
        engine: What runs it, or "auto".
        precision: What was asked for.
        planned: A plan from a file is followed, which was made for the bundle and not for its edition.

    Raises:
        ValueError: There is no such precision, no int8 edition though it was asked for, or it is damaged.
    """
    if precision not in get_args(WantedPrecision):
        raise ValueError(
            f"precision is {precision!r}; give {', '.join(map(repr, get_args(WantedPrecision)))}"
        )
    held = "int8" in bundle.config.editions
    if precision == "auto":
        if not held or planned or not _gains_by_int8():
            return "fp32", bundle
        edition = bundle.edition("int8")
        gains = _survives(edition, resolve_engine(bundle, engine))
        return ("int8", edition) if gains else ("fp32", bundle)
    if precision != "int8" or bundle.config.precision == "int8":
        return precision, bundle
    if not held:
        raise ValueError(
            f"{bundle.path} holds no int8 edition; make it of the images that it was trained on with: "
            f"poolsieve bundles quantise {bundle.path} DATA"
        )
    if engine == "torch":
        raise ValueError("torch does not run graphs in int8; take another engine or precision")
    return precision, bundle.edition("int8")


def _gains_by_int8() -> bool:
    """Whether the processor is faster in int8, and may use what makes it so."""
    return bool(_announced() & _FASTER_IN_BYTES) and os.environ.get(LIMIT) not in _LIMITS_WITHOUT_THEM


def _survives(edition: Bundle, engine: str) -> bool:
    """Whether this process can run an edition in int8, with the instructions that make it fast."""
    if engine == "torch":
        return False
    outcome = probe(engine, "int8", edition)
    too_late = outcome.limit is not None and engine in sys.modules
    return outcome.usable and outcome.limit not in _LIMITS_WITHOUT_THEM and not too_late


def _announced() -> set[str]:
    """Kinds of instructions that the processor says it has; none where it cannot be asked."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {word for line in lines if line.startswith(("flags", "Features")) for word in line.split()}
