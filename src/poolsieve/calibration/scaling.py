"""Turning a network's outputs into probabilities that mean what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from poolsieve.statistics import fit_softmax


@dataclass(frozen=True)
class OutputScaling:
    """Turns logits into calibrated probabilities: `softmax(logits / temperature + biases)`.

    Attributes:
        temperature: Above 1 if the network is too sure of itself.
        biases: One per output, sum 0.
        prior: Share of each class in the data that the scaling was fitted on. The probabilities hold where
            classes are as frequent as there; dividing by the prior leaves the likelihood.
    """

    temperature: float
    biases: tuple[float, ...]
    prior: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature={self.temperature!r}, but it must be a number above 0")
        if len(self.biases) != len(self.prior) or len(self.biases) < 2:
            raise ValueError(
                f"a scaling has a bias and a prior for each of at least two outputs; got {len(self.biases)} "
                f"biases and {len(self.prior)} priors"
            )
        if not all(math.isfinite(value) for value in self.biases):
            raise ValueError(f"biases must be finite; got {self.biases}")
        if not all(0 < value < 1 for value in self.prior) or abs(sum(self.prior) - 1) > 1e-6:
            raise ValueError(f"the prior must be positive shares with sum 1; got {self.prior}")

    def log_probabilities(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Calibrated log P(class | logits).  # (..., outputs)."""
        table = np.asarray(logits, dtype=np.float64)
        if table.shape[-1:] != (len(self.biases),):
            raise ValueError(
                f"the scaling is for {len(self.biases)} outputs, but the logits have shape {table.shape}"
            )
        table = table / self.temperature + np.array(self.biases)
        result: NDArray[np.float64] = scipy.special.log_softmax(table, axis=-1)
        return result

    def log_likelihoods(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Logarithm of P(logits | class), up to a constant in each row.  # (..., outputs)."""
        return self.log_probabilities(logits) - np.log(self.prior)


EVEN = OutputScaling(1.0, (0.0, 0.0), (0.5, 0.5))
"""Leaves combined logits of an image as they are: above one half means off topic by the paper's label."""


def fit_scaling(logits: ArrayLike, classes: ArrayLike) -> OutputScaling:
    """Fit temperature and biases by maximum likelihood.

    This is vector scaling with one temperature (Guo et al., "On Calibration of Modern Neural Networks", ICML
    2017), with the weak prior of `fit_softmax` on biases and on the logarithm of the temperature.

    Args:
        logits: Outputs on validation data.  # (N, outputs)
        classes: True classes.  # (N,)
    """
    labels, table = np.asarray(classes), np.asarray(logits, dtype=np.float64)
    if table.ndim != 2 or labels.shape != table.shape[:1] or table.shape[1] < 2 or not len(labels):
        raise ValueError(
            f"logits (N, outputs) and classes (N,) must agree; got {table.shape}, {labels.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("logits must be finite; the network that gave them did not train properly")
    outputs = table.shape[1]
    labels = whole_numbers(labels, outputs - 1, "classes")
    (logarithm,), biases = fit_softmax([table], labels, [0.0], [(-5.0, 5.0)], temperatures=True)
    shares = (np.bincount(labels, minlength=outputs) + 0.5) / (len(labels) + 0.5 * outputs)
    biases = biases - biases.mean()
    return OutputScaling(math.exp(logarithm), tuple(biases.tolist()), tuple(shares.tolist()))


def paired(logit: ArrayLike) -> NDArray[np.float64]:
    """Single logits that an image is bad, such as the cheap head's, as two outputs.  # (...) -> (..., 2)."""
    values = np.asarray(logit, dtype=np.float64)
    return np.stack([np.zeros_like(values), values], axis=-1)


def whole_numbers(values: ArrayLike, largest: int, what: str) -> NDArray[np.int64]:
    """Whole numbers from 0 to `largest`, checked."""
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or ((array < 0) | (array > largest)).any():
        raise ValueError(f"{what} must be whole numbers from 0 to {largest}")
    return array.astype(np.int64)
