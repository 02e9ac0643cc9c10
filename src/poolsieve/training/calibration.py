"""Calibration on validation data: what a network's outputs are worth, as numbers that travel with it.

Nothing here needs torch, so that a bundle's calibration can be read where images are moderated.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, ndtr, ndtri
from scipy.stats import rankdata

from poolsieve.decoders.noise import CountNoise
from poolsieve.designs import Pooling
from poolsieve.files import write_atomically

FORMAT_VERSION = 1
LARGEST_CORRELATION = 0.99
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


# ---- outputs to probabilities


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
        """Calibrated log P(class | logits).  # (..., outputs), or (...) for a single logit -> (..., 2)."""
        table = _two_sided(logits, len(self.biases)) / self.temperature + np.array(self.biases)
        result: NDArray[np.float64] = log_softmax(table, axis=-1)
        return result

    def log_likelihoods(self, logits: ArrayLike) -> NDArray[np.float64]:
        """log P(logits | class) up to a constant for each row: the prior divided out.  # (..., outputs)."""
        return self.log_probabilities(logits) - np.log(self.prior)


def fit_scaling(logits: ArrayLike, classes: ArrayLike) -> OutputScaling:
    """Fit temperature and biases by maximum likelihood (Guo et al., "On Calibration of Modern Neural Networks",
    2017: vector scaling with one temperature).

    A weak normal prior worth about one observation holds the logarithm of the temperature and the biases near 0,
    so that the fit stays finite where validation data have no example of a class, or no mistake.

    Args:
        logits: Outputs on validation data.  # (N, outputs), or (N,) for one logit that the class is 1
        classes: True classes.  # (N,)
    """  # noqa: D205
    labels = np.asarray(classes)
    table = _two_sided(logits, None)
    if table.ndim != 2 or labels.shape != table.shape[:1] or len(labels) == 0:
        raise ValueError(
            f"logits (N, outputs) and classes (N,) must agree; got {table.shape}, {labels.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("logits must be finite; the network that gave them did not train properly")
    labels = _whole(labels, table.shape[1] - 1, "classes")
    outputs = table.shape[1]
    one_hot = np.eye(outputs)[labels]
    table = table - table.mean(axis=1, keepdims=True)

    def penalised(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        inverse = math.exp(-parameters[0])
        logs = log_softmax(table * inverse + parameters[1:], axis=1)
        error = np.exp(logs) - one_hot
        value = -logs[one_hot == 1].sum() + 0.5 * parameters @ parameters
        slope = np.concatenate([[-(error * table).sum() * inverse], error.sum(axis=0)]) + parameters
        return value / len(table), slope / len(table)

    bounds = [(-5.0, 5.0)] + [(None, None)] * outputs
    found = minimize(penalised, np.zeros(outputs + 1), jac=True, method="L-BFGS-B", bounds=bounds)
    biases = found.x[1:] - found.x[1:].mean()
    shares = (np.bincount(labels, minlength=outputs) + 0.5) / (len(labels) + 0.5 * outputs)
    return OutputScaling(math.exp(found.x[0]), tuple(biases.tolist()), tuple(shares.tolist()))


# ---- counts


def confusion_counts(true: ArrayLike, read: ArrayLike, pool_size: int) -> NDArray[np.int64]:
    """How many pools with each true count (rows) got each reading (columns).  # (r + 1, r + 1)."""
    rows, columns = _whole(true, pool_size, "true counts"), _whole(read, pool_size, "readings")
    if rows.shape != columns.shape:
        raise ValueError(f"{rows.size} true counts, but {columns.size} readings")
    table = np.zeros((pool_size + 1, pool_size + 1), dtype=np.int64)
    np.add.at(table, (rows.ravel(), columns.ravel()), 1)
    return table


@dataclass(frozen=True)
class ErrorCorrelation:
    """How far errors of pools that share an image go together.

    An image that is hard to see is missed in all its pools, so pools do not err independently, and a
    simulation that lets them is too hopeful. `latent` is what `CountNoise.sample(correlation=...)` takes: the
    share of a pool's latent normal error that belongs to its bad images (to all its images if none is bad).
    The other two numbers only describe: correlation coefficients of the residuals, reading − mean reading at
    that true count, over pairs of pools.

    Attributes:
        latent: Between 0 and 1, by maximum pairwise likelihood.
        shared_bad: Correlation of residuals over pairs that share a bad image.
        shared_clean: The same over pairs that share clean images only.
        pairs: Number of pairs of pools that share an image.
    """

    latent: float
    shared_bad: float
    shared_clean: float
    pairs: int


def error_correlation(bad: ArrayLike, read: ArrayLike, pooling: Pooling) -> ErrorCorrelation:
    """Measure on validation chunks how errors of pools that share an image go together.

    Under the model of `CountNoise.sample` the latent errors of two pools have the correlation a·ρ, where a is
    the overlap of their contributing images: Σ 1/√(k·k′) over shared ones, k and k′ being the numbers of
    contributing images. A reading says in which interval the latent error lies, so a pair of readings has the
    probability of a rectangle under a bivariate normal distribution; ρ maximises the product over all pairs.

    Args:
        bad: True labels.  # (chunks, n)
        read: Readings of the pools.  # (chunks, m)
        pooling: Which images share which pool.
    """
    flags, size = np.atleast_2d(np.asarray(bad)) != 0, pooling.pool_size
    readings = _whole(np.atleast_2d(np.asarray(read)), size, "readings")
    true = pooling.counts(flags)
    if readings.shape != true.shape:
        raise ValueError(f"readings must have shape {true.shape} (chunks, pools), not {readings.shape}")
    overlaps = np.triu((pooling.sparse @ pooling.sparse.T).toarray(), k=1)
    first, second = np.nonzero(overlaps)
    if not len(first):
        raise ValueError("no two pools share an image; measure with a design in which images are in several")

    member = pooling.dense().astype(bool)  # (m, n)
    both = member[first] & member[second]  # (pairs, n)
    contributes = flags[:, None, :] | (true == 0)[:, :, None]  # (chunks, m, n)
    weight = np.where(true > 0, true, pooling.pool_sizes)  # contributing images of each pool
    joint = np.stack([(both & c[first] & c[second]).sum(axis=1) for c in contributes])
    overlap = joint / np.sqrt(weight[:, first] * weight[:, second])  # (chunks, pairs)
    shares_bad = np.stack([(both & chunk).any(axis=1) for chunk in flags])

    residual = readings - _mean_at(true, readings, size)[true]
    left, right = residual[:, first], residual[:, second]
    edges = ndtri(
        np.clip(np.cumsum(CountNoise.estimate(true, readings, size).confusion, axis=1), 1e-9, 1 - 1e-9)
    )
    edges = np.concatenate([np.full((size + 1, 1), -8.0), edges[:, :-1], np.full((size + 1, 1), 8.0)], axis=1)
    return ErrorCorrelation(
        latent=_pairwise_likelihood(true, readings, first, second, overlap, edges),
        shared_bad=_correlation(left[shares_bad], right[shares_bad]),
        shared_clean=_correlation(left[~shares_bad], right[~shares_bad]),
        pairs=int(overlap.size),
    )


def _pairwise_likelihood(
    true: NDArray[np.int64],
    read: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    overlap: NDArray[np.float64],
    edges: NDArray[np.float64],
) -> float:
    """The share ρ that explains the pairs of readings best."""
    told = overlap.ravel() > 0  # the others say nothing of ρ
    columns = [true[:, first], read[:, first], true[:, second], read[:, second], np.rint(overlap * 1e6)]
    cases, times = np.unique(
        np.stack([column.ravel()[told] for column in columns]).astype(np.int64), axis=1, return_counts=True
    )
    if not len(times):
        return 0.0
    k, y, k2, y2, scaled = cases
    a = scaled / 1e6
    corners = [(edges[k, y + i], edges[k2, y2 + j], (-1) ** (i + j)) for i in (0, 1) for j in (0, 1)]

    def loss(rho: float) -> float:
        chance = sum(sign * _normal_cdf(h, h2, a * rho) for h, h2, sign in corners)
        return float(-(times * np.log(np.maximum(chance, 1e-12))).sum())

    best = minimize_scalar(loss, bounds=(0.0, LARGEST_CORRELATION), method="bounded", options={"xatol": 1e-4})
    return 0.0 if loss(0.0) <= best.fun else float(best.x)


def _normal_cdf(
    h: NDArray[np.float64], k: NDArray[np.float64], correlation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """P(X ≤ h, Y ≤ k) of standard normal variables, by Plackett's integral over the angle of correlation."""
    angle = np.arcsin(correlation)[..., None] * (_NODES + 1) / 2  # (..., nodes)
    h2, k2 = h[..., None], k[..., None]
    inner = np.exp(-(h2**2 + k2**2 - 2 * h2 * k2 * np.sin(angle)) / (2 * np.cos(angle) ** 2))
    result: NDArray[np.float64] = ndtr(h) * ndtr(k) + np.arcsin(correlation) / (4 * np.pi) * (
        inner @ _WEIGHTS
    )
    return result


# ---- single images


@dataclass(frozen=True)
class RocCurve:
    """Sensitivity against false alarms over all thresholds.

    Attributes:
        false_positive_rate: Ascending from 0 to 1.
        true_positive_rate: Ascending from 0 to 1.
        auc: Area under the whole curve, even if the points are thinned.
    """

    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]
    auc: float


def roc_curve(scores: ArrayLike, bad: ArrayLike, *, points: int = 200) -> RocCurve:
    """ROC curve of scores, higher = worse; equal scores are one step, thinned to at most `points` points."""
    values, flags = np.asarray(scores, dtype=np.float64), np.asarray(bad) != 0
    if values.ndim != 1 or values.shape != flags.shape:
        raise ValueError(f"one score and one label per image; got {values.shape} and {flags.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    positives = int(flags.sum())
    negatives = len(flags) - positives
    if not positives or not negatives:
        raise ValueError(f"a ROC curve needs bad and clean images; got {positives} and {negatives}")
    order = np.argsort(-values, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # last of equal scores
    hits = np.concatenate([[0], np.cumsum(flags[order])[ends]])
    alarms = np.concatenate([[0], ends + 1]) - hits
    chosen = np.unique(np.linspace(0, len(hits) - 1, min(points, len(hits))).round().astype(int))
    above = rankdata(values)[flags].sum() - positives * (positives + 1) / 2  # Mann–Whitney's U
    return RocCurve(
        tuple((alarms[chosen] / negatives).tolist()),
        tuple((hits[chosen] / positives).tolist()),
        float(above / (positives * negatives)),
    )


# ---- all of it


@dataclass(frozen=True)
class CountingCalibration:
    """Calibration of one counting network.

    Attributes:
        scaling: Logits to probabilities of counts.
        confusion: Validation pools by true count (rows) and reading (columns), where the reading is the arg
            max of the network's outputs (eq:qmpnn_output).
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
    logits: ArrayLike, counts: ArrayLike, correlation: ErrorCorrelation | None = None
) -> CountingCalibration:
    """Calibrate a counting network on validation pools.

    Args:
        logits: Its outputs.  # (pools, r + 1)
        counts: True counts.  # (pools,)
        correlation: From `error_correlation`, if measured.
    """
    table = np.asarray(logits, dtype=np.float64)
    scaling = fit_scaling(table, counts)
    confusion = confusion_counts(counts, table.argmax(axis=1), table.shape[1] - 1)
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
    """

    individual: OutputScaling
    individual_roc: RocCurve
    head: OutputScaling | None = None
    head_roc: RocCurve | None = None
    counting: Mapping[int, CountingCalibration] = field(default_factory=dict)

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
                individual=_scaling_from(values["individual"]),
                individual_roc=_roc_from(values["individual_roc"]),
                head=None if values["head"] is None else _scaling_from(values["head"]),
                head_roc=None if values["head_roc"] is None else _roc_from(values["head_roc"]),
                counting={int(size): _counting_from(part) for size, part in values["counting"].items()},
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


def _scaling_from(values: Mapping[str, Any]) -> OutputScaling:
    return OutputScaling(float(values["temperature"]), tuple(values["biases"]), tuple(values["prior"]))


def _roc_from(values: Mapping[str, Any]) -> RocCurve:
    return RocCurve(
        tuple(values["false_positive_rate"]), tuple(values["true_positive_rate"]), float(values["auc"])
    )


def _counting_from(values: Mapping[str, Any]) -> CountingCalibration:
    correlation = values["correlation"]
    return CountingCalibration(
        _scaling_from(values["scaling"]),
        tuple(tuple(int(value) for value in row) for row in values["confusion"]),
        None if correlation is None else ErrorCorrelation(**correlation),
    )


def _check_finite(value: object, where: str) -> None:
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_finite(part, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for k, part in enumerate(value):
            _check_finite(part, f"{where}[{k}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, but every number must be finite")


def _two_sided(logits: ArrayLike, outputs: int | None) -> NDArray[np.float64]:
    """Single logits that the class is 1 as pairs (0, logit); others as they are."""
    table = np.asarray(logits, dtype=np.float64)
    if table.ndim < 2 and (outputs in (2, None)) and table.shape[-1:] != (outputs,):
        table = np.stack([np.zeros_like(table), table], axis=-1)
    if outputs is not None and table.shape[-1:] != (outputs,):
        raise ValueError(f"the scaling is for {outputs} outputs, but the logits have shape {table.shape}")
    return table


def _whole(values: ArrayLike, largest: int, what: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or ((array < 0) | (array > largest)).any():
        raise ValueError(f"{what} must be whole numbers from 0 to {largest}")
    return array.astype(np.int64)


def _mean_at(true: NDArray[np.int64], read: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    pools = np.bincount(true.ravel(), minlength=size + 1)
    total = np.bincount(true.ravel(), weights=read.ravel(), minlength=size + 1)
    return total / np.maximum(pools, 1)


def _correlation(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Of residuals with mean 0; 0 where nothing varies. A pair has no order, so both ends share a variance."""
    scale = (left @ left + right @ right) / 2
    return float(left @ right / scale) if scale > 0 else 0.0
