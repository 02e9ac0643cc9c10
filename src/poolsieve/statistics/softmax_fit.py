"""How much tables of scores are worth: multinomial logistic regression with a weak prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray


def fit_softmax(
    tables: Sequence[NDArray[np.float64]],
    classes: NDArray[np.int64],
    prior: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    *,
    temperatures: bool = False,
) -> tuple[list[float], NDArray[np.float64]]:
    """Weights of tables, and biases, under which softmax(Σ weight · table + biases) fits the classes best.

    A weak normal prior worth about one observation holds the biases near 0 and the weights near theirs, so
    that the fit stays finite where the data have no example of a class, or nothing is mistaken.

    Args:
        tables: Scores of every class.  # each (N, outputs)
        classes: True classes.  # (N,)
        prior: What the weights are without data.
        bounds: The least and the largest each may be.
        temperatures: What is fitted, and what `prior` and `bounds` speak of, are logarithms of temperatures:
            a table's weight is exp(−θ).

    Returns:
        The weights, or logarithms of temperatures, and the biases.  # (outputs,)
    """
    from scipy.optimize import minimize  # slow to import, and moderating does not fit anything

    number, outputs = len(tables), tables[0].shape[1]
    one_hot = np.eye(outputs)[classes]
    centred = [table - table.mean(axis=1, keepdims=True) for table in tables]
    start = np.concatenate([prior, np.zeros(outputs)])

    def penalised(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = [math.exp(-value) if temperatures else value for value in parameters[:number]]
        scores = sum(weight * table for weight, table in zip(weights, centred, strict=True))
        logs = scipy.special.log_softmax(scores + parameters[number:], axis=1)
        error, away = np.exp(logs) - one_hot, parameters - start
        slopes = [-weight if temperatures else 1.0 for weight in weights]
        inner = [(error * table).sum() * slope for table, slope in zip(centred, slopes, strict=True)]
        value = -logs[one_hot == 1].sum() + 0.5 * away @ away
        return value / len(classes), (np.concatenate([inner, error.sum(axis=0)]) + away) / len(classes)

    limits = [*bounds, *[(None, None)] * outputs]
    found = minimize(penalised, start, jac=True, method="L-BFGS-B", bounds=limits).x
    return found[:number].tolist(), found[number:]
