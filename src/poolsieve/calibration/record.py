"""All that was learnt of a model's networks on validation data, as one record."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from poolsieve.calibration.confusion import confusion_counts
from poolsieve.calibration.error_correlation import ErrorCorrelation
from poolsieve.calibration.roc import RocCurve
from poolsieve.calibration.scaling import OutputScaling, fit_scaling
from poolsieve.files import write_atomically

FORMAT_VERSION = 1
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class CountingCalibration:
    """Calibration of one counting network.

    Attributes:
        scaling: Logits to probabilities of counts.
        confusion: Validation pools by true count (rows) and reading (columns), where the reading is the arg
            max of the network's outputs (eq:qmpnn_output), or the histogram's count (eq:label_pool).
        correlation: How errors of pools that share an image go together; None if not measured.
    """

    scaling: OutputScaling
    confusion: tuple[tuple[int, ...], ...]
    correlation: ErrorCorrelation | None = None

    def __post_init__(self) -> None:
        size = len(self.scaling.biases)
        if len(self.confusion) != size or any(len(row) != size for row in self.confusion):
            raise ValueError(f"the confusion matrix must be {size} × {size}, as there are {size} outputs")
        if any(value < 0 for row in self.confusion for value in row):
            raise ValueError("the confusion matrix holds a negative number of pools")


def calibrate_counting(
    logits: ArrayLike,
    counts: ArrayLike,
    correlation: ErrorCorrelation | None = None,
    read: ArrayLike | None = None,
) -> CountingCalibration:
    """Calibrate a counting network on validation pools.

    Args:
        logits: Its outputs.  # (pools, r + 1)
        counts: True counts.  # (pools,)
        correlation: From `error_correlation`, if measured.
        read: Readings, if they are not the arg max of the outputs.  # (pools,)
    """
    table = np.asarray(logits, dtype=np.float64)
    scaling = fit_scaling(table, counts)
    read = table.argmax(axis=1) if read is None else read
    confusion = confusion_counts(counts, read, table.shape[1] - 1)
    return CountingCalibration(scaling, tuple(tuple(row) for row in confusion.tolist()), correlation)


@dataclass(frozen=True)
class Calibration:
    """What was learnt of a model's networks on validation data.

    Attributes:
        individual: Scaling of the individual network's two outputs.
        individual_roc: Its ROC curve.
        head: Scaling of the cheap head's logit.
        head_roc: Its ROC curve.
        counting: By pool size.
        glance: Scaling of the glance's logit, if there is a glance.
        glance_roc: Its ROC curve.
    """

    individual: OutputScaling
    individual_roc: RocCurve
    head: OutputScaling | None = None
    head_roc: RocCurve | None = None
    counting: Mapping[int, CountingCalibration] = field(default_factory=dict)
    glance: OutputScaling | None = None
    glance_roc: RocCurve | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = {"format": FORMAT_VERSION, **asdict(self)}
        values["counting"] = {str(size): asdict(part) for size, part in self.counting.items()}
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        """The reverse of `to_json`, after a round through a file or not.

        Raises:
            ValueError: Something is missing, is not a finite number, or belongs to another format.
        """
        if values.get("format") != FORMAT_VERSION:
            raise ValueError(f"calibration format {values.get('format')!r} is not {FORMAT_VERSION}")
        _check_finite(values, "calibration")
        try:
            return cls(
                individual=_made(OutputScaling, values["individual"]),
                individual_roc=_made(RocCurve, values["individual_roc"]),
                head=values["head"] and _made(OutputScaling, values["head"]),
                head_roc=values["head_roc"] and _made(RocCurve, values["head_roc"]),
                counting={int(size): _counting(part) for size, part in values["counting"].items()},
                glance=values.get("glance") and _made(OutputScaling, values["glance"]),
                glance_roc=values.get("glance_roc") and _made(RocCurve, values["glance_roc"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a calibration: {type(error).__name__} {error}") from error

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the calibration as JSON."""
        values = self.to_json()
        _check_finite(values, "calibration")
        return write_atomically(path, (json.dumps(values, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what `save` wrote."""
        try:
            return cls.from_json(json.loads(Path(path).read_bytes()))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _made(kind: type[_Part], values: Mapping[str, Any]) -> _Part:
    return kind(**{name: _tuples(value) for name, value in values.items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _counting(values: Mapping[str, Any]) -> CountingCalibration:
    correlation = values["correlation"] and _made(ErrorCorrelation, values["correlation"])
    scaling = _made(OutputScaling, values["scaling"])
    return CountingCalibration(scaling, _tuples(values["confusion"]), correlation)


def _check_finite(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_finite(part, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for k, part in enumerate(value):
            _check_finite(part, f"{where}[{k}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, but every number must be finite")
