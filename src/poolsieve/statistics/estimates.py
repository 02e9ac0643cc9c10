"""A value with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import scipy

Z95 = 1.959963984540054
"""Standard errors from the value to either end of a 95% interval, 1.96."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, of 95% unless it is said otherwise; NaN where there was nothing to measure.

    `format(estimate, ".2%")` writes all three numbers in that way, by default as `style` says.

    Attributes:
        value: What was measured, or is expected.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float
    style: ClassVar[str] = ".4f"

    @classmethod
    def normal(cls, value: float, variance: float, *, confidence: float = 0.95) -> Estimate:
        """A value that scatters by the normal distribution with this variance."""
        half = float(scipy.special.ndtri(0.5 + confidence / 2)) * math.sqrt(variance)
        return cls(value, value - half, value + half)

    @property
    def defined(self) -> bool:
        """Whether there was anything to measure."""
        return not math.isnan(self.value)

    def columns(self, name: str) -> dict[str, float]:
        """The three numbers by the names that they have in tables: `name`, `name_low`, `name_high`."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def clipped(self, lowest: float, highest: float) -> Estimate:
        """The same with the ends of the interval within what is possible."""
        return Estimate(self.value, max(self.low, lowest), min(self.high, highest))

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        if not self.defined:
            return "undefined"
        value, low, high = (
            format(number, spec or self.style) for number in (self.value, self.low, self.high)
        )
        return f"{value} [{low}, {high}]"
