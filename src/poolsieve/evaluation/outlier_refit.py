"""Densities of feature vectors for networks that look at images of another size.

Vectors of smaller images lie elsewhere, so the density is fitted anew to on-topic training images, and what
its scores mean is learnt anew on validation images, both as in training.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.feature_cache import LabelledImages
from poolsieve.outliers import GaussianMixture, OutlierReading, OutlierReadings, fit_mixture, make_reading
from poolsieve.training.sampling import draw_pools

if TYPE_CHECKING:
    from poolsieve.engines.engine import Engine, NetworkOutput
    from poolsieve.evaluation.recorded_networks import ImageRecords

_HELD_OUT_SHARE = 0.25
"""Held-out on-topic pools for each one that a mixture is fitted to, as in training."""
_LEAST_IMAGES = 20


class UnfitFeaturesError(ValueError):
    """No density can be fitted to the features of images of this size."""


def on_topic(images: LabelledImages) -> LabelledImages:
    """Those that are on topic."""
    kept = np.flatnonzero(images.labels == 0).tolist()
    return LabelledImages(
        f"{images.name}, on-topic",
        [images.files[k] for k in kept],
        [images.digests[k] for k in kept],
        images.labels[kept],
    )


def why_not(train: LabelledImages) -> str:
    """Why densities cannot be fitted anew to these on-topic images; empty if they can."""
    if importlib.util.find_spec("sklearn") is None:
        return "scikit-learn is not installed (pip install 'poolsieve[train]')"
    if len(train) < _LEAST_IMAGES:
        return f"the data have {len(train)} on-topic images in split train, and {_LEAST_IMAGES} are needed"
    return ""


def refit_outliers(
    known: OutlierReadings,
    engine: Engine,
    train: ImageRecords,
    tuning: ImageRecords,
    labels: NDArray[np.int64],
    *,
    pools: int,
    seed: int,
) -> OutlierReadings:
    """Fit all densities and readings of a bundle anew, to on-topic training and labelled validation images.

    What the `known` readings combine, how far they count, and their bins are kept. So many `pools` are drawn
    to fit to, and as many to learn from what scores mean.

    Raises:
        UnfitFeaturesError: Features do not vary, or are too few.
    """
    clear = labels == 0
    mixture = _fit(train.vectors, tuning.vectors[clear], seed)
    individual = make_reading(
        mixture,
        tuning.logits,
        tuning.vectors,
        labels,
        largest=1,
        combine=not known.individual.by_density,
        bins=len(known.individual.histogram.labels),
    )
    counting = {}
    for size, reading in known.counting.items():
        learnt = _read(engine, train, np.zeros(len(train), dtype=np.int64), size, [pools], [seed, size, 0])
        held_out = _read(engine, tuning, labels, size, [round(_HELD_OUT_SHARE * pools)], [seed, size, 1])
        mixture = _fit(learnt[1].vectors, held_out[1].vectors, seed)
        counts, output = _read(
            engine, tuning, labels, size, [max(2, pools // (size + 1))] * (size + 1), [seed, size, 2]
        )
        counting[size] = make_reading(
            mixture,
            output.logits,
            output.vectors,
            counts,
            largest=reading.histogram.largest,
            combine=not reading.by_density,
            bins=len(reading.histogram.labels),
        )
    return OutlierReadings(individual, counting)


def density_alone(readings: OutlierReadings) -> OutlierReadings:
    """The same densities, read as in the paper: without the networks' own outputs."""
    return OutlierReadings(
        _by_density(readings.individual),
        {size: _by_density(reading) for size, reading in readings.counting.items()},
    )


def _fit(vectors: NDArray[np.float32], held_out: NDArray[np.float32], seed: int) -> GaussianMixture:
    try:
        return fit_mixture(vectors, held_out, seed=seed).mixture
    except ValueError as error:
        raise UnfitFeaturesError(str(error)) from error


def _by_density(reading: OutlierReading) -> OutlierReading:
    return replace(reading, logit_weight=0.0, score_weight=1.0)


def _read(
    engine: Engine,
    records: ImageRecords,
    labels: NDArray[np.int64],
    size: int,
    numbers: list[int],
    seed: list[int],
) -> tuple[NDArray[np.int64], NetworkOutput]:
    """Draw and read pools with 0, 1, … off-topic images: their counts, and what the network says."""
    wanted = np.zeros(size + 1, dtype=np.int64)
    wanted[: len(numbers)] = numbers
    drawn = draw_pools(labels, wanted, np.random.default_rng(seed))
    gate = records.gates if engine.bundle.config.merge == "gated" else None
    return drawn.counts, engine.pooled(records.features, gate, drawn.members, size)
