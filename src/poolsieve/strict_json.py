"""Data classes out of JSON, read strictly by their annotations; complaints name the key and the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
FromZero = Annotated[int, 0]
"""A whole number from 0 on; those of other fields begin with 1."""


def read_record(kind: type[Record], values: object, key: str = "") -> Record:
    """A data class of numbers, texts, choices, tuples, mappings and other data classes, of what JSON holds.

    Every field must be there, and further keys are passed over. `key` is where it stands, for complaints.

    Raises:
        ValueError: A value is missing, has another type or is out of range.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{key} is {values!r:.80}, but must be an object" if key else "holds no object")
    hints, prefix = get_type_hints(kind, include_extras=True), f"{key}." if key else ""
    found = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name not in values:
            raise ValueError(f"{prefix}{one.name} is missing")
        found[one.name] = _read(hints[one.name], values[one.name], f"{prefix}{one.name}")
    return kind(**found)


def _read(kind: Any, value: Any, key: str, smallest: int = 1) -> Any:
    origin, parts = get_origin(kind), get_args(kind)

    def require(holds: bool, wanted: str) -> None:
        if not holds:
            raise ValueError(f"{key} is {value!r:.80}, but must be {wanted}")

    if NoneType in parts:
        return None if value is None else _read(parts[0], value, key)
    if origin is Annotated:
        return _read(parts[0], value, key, parts[1])
    if is_dataclass(kind):
        return read_record(kind, value, key)  # type: ignore[arg-type]
    if origin is Literal:
        require(isinstance(value, str) and value in parts, " or ".join(map(repr, parts)))
    elif origin is tuple:
        allowed, wanted = _one_of(parts[0], smallest)
        require(isinstance(value, list) and all(map(allowed, value)), f"a list of {wanted[1]}")
        if parts[-1] is not Ellipsis and len(value) != len(parts):
            raise ValueError(f"{key} has {len(value)} values, but must have {len(parts)}")
        return tuple(map(parts[0], value))
    elif origin is not None:  # a mapping
        require(isinstance(value, Mapping), "an object")
        return {name: _read(parts[1], part, f"{key}.{name}") for name, part in value.items()}
    else:
        allowed, wanted = _one_of(kind, smallest)
        require(allowed(value), wanted[0])
    return value


def _one_of(kind: type, smallest: int) -> tuple[Callable[[Any], bool], tuple[str, str]]:
    """Which texts or numbers are allowed, and what one and several of them are called."""
    if kind is str:
        return lambda value: isinstance(value, str) and value != "", ("a text", "texts")
    if kind is int:
        names = (f"a whole number from {smallest} on", f"whole numbers from {smallest} on")
        return lambda value: type(value) is int and value >= smallest, names
    finite = ("a finite number", "finite numbers")
    return lambda value: type(value) in (int, float) and math.isfinite(value), finite
