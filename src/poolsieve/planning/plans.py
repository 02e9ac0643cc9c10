"""What is asked for, and what a plan promises; the file of a plan."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import Recordings
from poolsieve.files import write_atomically
from poolsieve.planning.outcomes import THRESHOLDS, USUAL_THRESHOLD
from poolsieve.schemes import Scheme
from poolsieve.statistics import Estimate

FORMAT = 2
_ESTIMATES = ("sensitivity", "specificity", "cost", "loss")


@dataclass(frozen=True)
class Target:
    """What a plan must reach.

    Attributes:
        sensitivity: Least share of bad images to flag; None for that of the individual network less `within`.
        specificity: Least share of clear images to leave alone; None for that of the individual network on
            the recorded images.
        within: How far below the individual network the sensitivity may lie.
        specificity_within: How far below, if no specificity is given, the true specificity may lie. More than
            0 lets plans lower the threshold: they cost less and may flag that many more clear images.
        threshold: The individual network's score above which an image is flagged; None lets the plan choose
            it, and compares with individual testing at its usual threshold.
    """

    sensitivity: float | None = None
    specificity: float | None = None
    within: float = 0.01
    threshold: float | None = None
    specificity_within: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sensitivity", "specificity", "within", "threshold", "specificity_within"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name}={value}, but it must lie between 0 and 1")

    @property
    def reference(self) -> float:
        """Threshold of the individual testing that plans are compared with."""
        return USUAL_THRESHOLD if self.threshold is None else self.threshold

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Thresholds of the individual network that a plan may have, the reference among them."""
        return THRESHOLDS if self.threshold is None else np.array([self.threshold])

    def least(self, recordings: Recordings, among: NDArray[np.bool_] | None = None) -> tuple[float, float]:
        """Least sensitivity and specificity on recorded images, or some of them."""
        reached = individual_reach(recordings, self.reference, among)
        return (
            reached[0] - self.within if self.sensitivity is None else self.sensitivity,
            reached[1] if self.specificity is None else self.specificity,
        )

    def __str__(self) -> str:
        sensitivity = f"sensitivity ≥ {self.sensitivity}"
        if self.sensitivity is None:
            sensitivity = f"sensitivity within {self.within} of individual testing"
        specificity = "no worse" if self.specificity is None else f"≥ {self.specificity}"
        if self.specificity is None and self.specificity_within:
            specificity = f"within {self.specificity_within}"
        threshold = "" if self.threshold is None else f", threshold {self.threshold}"
        return f"{sensitivity}, specificity {specificity}{threshold}"


def individual_reach(
    recordings: Recordings, threshold: float, among: NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """Sensitivity and specificity of the individual network on recorded images, or some of them."""
    among = np.ones(len(recordings.bad), dtype=bool) if among is None else among
    flagged = recordings.scores > threshold
    return float(flagged[recordings.bad & among].mean()), float((~flagged)[~recordings.bad & among].mean())


@dataclass(frozen=True)
class Plan:
    """A scheme with all its parameters, and what it is expected to do at a prevalence.

    Intervals are where other images of the kind show a value in 95 of 100 cases.

    Attributes:
        scheme: Name of the scheme.
        parameters: Its parameters.
        prevalence: Share of bad images that it is made for.
        sensitivity: Expected share of bad images that are flagged.
        specificity: Expected share of clear images that are not.
        cost: Expected cost, as a share of testing every image individually.
        loss: How much lower the sensitivity is than that of individual testing on the same images; below 0
            where it is higher. Of 100 true values 95 lie below the upper end, and 95 above the lower one.
        meets_target: Whether it reaches what was asked for.
        note: What one should know of it; None if there is nothing.
    """

    scheme: str
    parameters: Mapping[str, Any]
    prevalence: float
    sensitivity: Estimate
    specificity: Estimate
    cost: Estimate
    loss: Estimate
    meets_target: bool = True
    note: str | None = None

    def describe(self) -> str:
        """The scheme and what sets it apart, for people."""
        hidden = {"prevalence", "chunk"}
        shown = [f"{name} {_short(value)}" for name, value in self.parameters.items() if name not in hidden]
        return f"{self.scheme} ({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Plan:
        """The reverse of `to_json`.

        Raises:
            ValueError: Something is missing or of another kind.
        """
        try:
            estimates = {name: Estimate(**values[name]) for name in _ESTIMATES}
            numbers = [value for part in estimates.values() for value in asdict(part).values()]
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
                raise ValueError("holds estimates that are not finite numbers")
            return cls(
                scheme=str(values["scheme"]),
                parameters=dict(values["parameters"]),
                prevalence=float(values["prevalence"]),
                meets_target=bool(values["meets_target"]),
                note=None if values["note"] is None else str(values["note"]),
                **estimates,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a plan: {type(error).__name__} {error}") from error


def save_plan(plan: Plan, path: str | os.PathLike[str], *, bundle: str) -> Path:
    """Write a plan that `poolsieve moderate --plan` takes.

    Args:
        plan: The plan.
        path: A `.json` file.
        bundle: Hash of the bundle that it is for.
    """
    if Path(path).suffix != ".json":
        raise ValueError(f"{path}: a plan is a .json file")
    values = {"format": FORMAT, "bundle": bundle, "plan": plan.to_json()}
    return write_atomically(path, (json.dumps(values, indent=2, allow_nan=False) + "\n").encode())


def load_plan(path: str | os.PathLike[str], *, bundle: str) -> Plan | Scheme:
    """Read what `save_plan` wrote, or a scheme that somebody wrote down, which promises nothing.

    The latter is a list of stages: `{"stages": [{"stage": "head"}, {"stage": "test"}], "prevalence": 0.01}`;
    see `poolsieve.schemes.Scheme`.

    Raises:
        ValueError: It is no plan, or one for another bundle, or stages that make no sense.
    """
    if not Path(path).is_file():
        raise ValueError(f"no plan {path}: there is no such file; see poolsieve plan --help")
    try:
        values = json.loads(Path(path).read_bytes())
        by_hand = isinstance(values, dict) and "stages" in values
        if not by_hand and (not isinstance(values, dict) or values.get("format") != FORMAT):
            raise ValueError(f"not a plan of format {FORMAT}")
        if not by_hand:
            plan = Plan.from_json(values["plan"] if isinstance(values.get("plan"), dict) else {})
    except ValueError as error:
        raise ValueError(
            f"{path} is no plan ({error}); make one with: poolsieve plan BUNDLE --prevalence P --out FILE"
        ) from error
    if by_hand:
        try:
            return Scheme.from_json(values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    if values.get("bundle") != bundle:
        raise ValueError(f"{path} was made for another bundle (or before it was recorded anew); plan again")
    return plan


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
