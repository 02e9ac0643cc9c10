"""What a field of a data class may be, declared with the field and checked in one form."""

from __future__ import annotations

import dataclasses
import numbers
from dataclasses import dataclass
from typing import Any

MOST = 1e9
"""Parameters beyond this are mistakes; the limit keeps arithmetic with them exact and finite."""


@dataclass(frozen=True)
class Interval:
    """Allowed values of a number; the declaration of a parameter and the text of its error in one."""

    low: float = -MOST
    high: float = MOST
    open_low: bool = False
    open_high: bool = False
    whole: bool = False
    optional: bool = False

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise ValueError in the one form that all parameters share."""
        if not self.holds(value):
            shown = repr(value) if len(repr(value)) < 40 else f"{str(value)[:36]}…"
            raise ValueError(f"{owner}: {name}={shown}, but it must be {self}")

    def holds(self, value: Any) -> bool:
        """Whether a value is allowed."""
        if value is None:
            return self.optional
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        number: Any = value  # which may be too long for a float
        above = self.low < number if self.open_low else self.low <= number
        below = number < self.high if self.open_high else number <= self.high
        return bool(above and below and (not self.whole or number == int(number)))

    @property
    def limits(self) -> str:
        """The limits that a user may run into, such as "at least 1"; empty if there are none."""
        lower = f"{'above' if self.open_low else 'at least'} {self.low:g}"
        upper = f"{'below' if self.open_high else 'at most'} {self.high:g}"
        return " and ".join([lower] * (self.low > -MOST) + [upper] * (self.high < MOST))

    def __str__(self) -> str:
        limits = self.limits
        if self.whole and self.high >= MOST:
            limits += f"{' and ' * bool(limits)}at most {self.high:g}"
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} {limits}{', or None' if self.optional else ''}".strip()


@dataclass(frozen=True)
class Several:
    """Allowed values of a tuple of different numbers, of which there is at least one."""

    each: Interval

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise ValueError in the one form that all parameters share."""
        if not value or len(set(value)) != len(value) or not all(map(self.each.holds, value)):
            raise ValueError(f"{owner}: {name}={value}, but each must be {self.each}, and none twice")

    @property
    def limits(self) -> str:
        """The limits of each number."""
        return self.each.limits


@dataclass(frozen=True)
class Choice:
    """Allowed values of a parameter that is one of a few names."""

    names: tuple[str, ...]

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise ValueError in the one form that all parameters share."""
        if value not in self.names:
            raise ValueError(f"{owner}: {name}={value!r}, but it must be one of {', '.join(self.names)}")


@dataclass(frozen=True)
class Instance:
    """Allowed values of a parameter that is an object of some class; None may stand for the default."""

    kind: type

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raise ValueError in the one form that all parameters share."""
        if value is not None and not isinstance(value, self.kind):
            raise ValueError(f"{owner}: {name}={value!r}, but it must be a {self.kind.__name__} or None")


def parameter(default: Any, allowed: Interval | Several | Choice | Instance) -> Any:
    """Declare a field of a data class: its default and what it may be, in one place.

    A plain field of the data class is a parameter too, and is not checked.
    """
    return dataclasses.field(default=default, metadata={"allowed": allowed})


def check_parameters(owner: Any) -> None:
    """Raise ValueError if a field of a data class is not what it was declared to be."""
    for field in dataclasses.fields(owner):
        allowed = field.metadata.get("allowed")  # a plain field has none and may be anything
        if allowed is not None:
            allowed.check(type(owner).__name__, field.name, getattr(owner, field.name))
