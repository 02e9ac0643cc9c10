"""How random views of an image are drawn: settings alone, so that naming them needs no library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from poolsieve.parameters import Interval, check_parameters, parameter

ResizeMode = Literal["pad", "stretch"]
"""How an image becomes square: padded with zeros (a letterbox), or stretched."""


@dataclass(frozen=True)
class ViewSettings:
    """How random views are drawn.

    Attributes:
        flip: Mirror left to right in half of the views.
        rotation: Turn by an angle uniform in [−rotation, rotation] degrees; uncovered corners are zero.
        min_crop: The smallest share of the area that a random crop keeps; 1 crops nothing.
        colour: Brightness, contrast and saturation each change by a factor in [1 − colour, 1 + colour].
        letterbox: Share of the views that get bars above and below or left and right, half of them black and
            the others of any plain colour.
    """

    flip: bool = True
    rotation: float = parameter(30.0, Interval(low=0, high=180))
    min_crop: float = parameter(0.5, Interval(low=0, high=1, open_low=True))
    colour: float = parameter(0.3, Interval(low=0, high=1, open_high=True))
    letterbox: float = parameter(0.1, Interval(low=0, high=1))

    def __post_init__(self) -> None:
        check_parameters(self)


DEFAULT_VIEWS = ViewSettings()

PAPER_POOLED = ViewSettings(flip=True, rotation=30.0, min_crop=1.0, colour=0.0, letterbox=0.0)
"""The paper's views for pools: a random flip and a rotation in [−30°, 30°]."""
