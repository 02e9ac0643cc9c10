"""Learning what is on topic from trained networks (paper, "Pooled Deep Outlier Detection")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.outliers import FittedMixture, OutlierReading, OutlierReadings, fit_mixture, make_reading
from poolsieve.outliers.model import swapped
from poolsieve.progress import Reporter
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import read_images, read_pool_vectors
from poolsieve.training.sampling import draw_clean_pools, draw_pools, epoch_generator
from poolsieve.training.settings import OutlierSettings, TrainingSettings

HELD_OUT_SHARE = 0.25
"""Held-out on-topic pools for each one that a mixture is fitted to."""


def fit_outliers(
    model: TrainedModel,
    train: CachedInputs,
    validation: CachedInputs,
    settings: TrainingSettings,
    reporter: Reporter,
) -> OutlierReadings:
    """Fit mixtures to on-topic training features, and learn on validation images what their scores mean.

    Held-out pools and images, which choose K and all else about a mixture, are validation ones: the networks
    have learnt the training images, whose features so lie closer together than those of others.
    """
    outlier_settings = settings.outliers
    if outlier_settings is None:
        raise ValueError("the settings are for classification; give them outliers=OutlierSettings()")
    individual = _fit_individual(
        model.individual, model.gate, train, validation, outlier_settings, settings, reporter
    )
    counting = {
        size: _fit_counting(network, train, validation, outlier_settings, settings, reporter)
        for size, network in sorted(model.counting.items())
    }
    return OutlierReadings(individual, counting)


def _fit_individual(
    network: IndividualNetwork,
    gate: Gate,
    train: CachedInputs,
    validation: CachedInputs,
    outlier_settings: OutlierSettings,
    settings: TrainingSettings,
    reporter: Reporter,
) -> OutlierReading:
    learnt = read_images(network, gate, train, np.flatnonzero(train.labels == 0)).vectors
    judged = read_images(network, gate, validation)
    labels = validation.labels
    found = fit_mixture(
        learnt, judged.vectors[labels == 0], clusters=outlier_settings.clusters, seed=settings.seed
    )
    scores = found.mixture.scores(judged.vectors)
    reporter.line(_found("images", len(learnt), found, scores, labels))
    if message := swapped(scores[labels == 0], scores[labels == 1]):
        reporter.line(f"warning: {message}")
    return make_reading(
        found.mixture,
        judged.individual,
        judged.vectors,
        labels,
        largest=1,
        combine=outlier_settings.reading == "combined",
        bins=outlier_settings.bins,
    )


def _fit_counting(
    network: PooledNetwork,
    train: CachedInputs,
    validation: CachedInputs,
    outlier_settings: OutlierSettings,
    settings: TrainingSettings,
    reporter: Reporter,
) -> OutlierReading:
    size = network.pool_size
    learnt = _on_topic_vectors(network, train, outlier_settings.mixture_pools, "mixture", settings)
    held_out = _on_topic_vectors(
        network, validation, round(HELD_OUT_SHARE * outlier_settings.mixture_pools), "held-out", settings
    )
    found = fit_mixture(learnt, held_out, clusters=outlier_settings.clusters, seed=settings.seed)
    rng = epoch_generator(settings.seed, f"histogram pools {size}", 0)
    pools = draw_pools(validation.labels, np.full(size + 1, outlier_settings.histogram_pools), rng)
    output = read_pool_vectors(network, validation, pools)
    scores, few = found.mixture.scores(output.vectors), pools.counts <= 1
    reporter.line(_found(f"pools of {size}", len(learnt), found, scores[few], pools.counts[few]))
    return make_reading(
        found.mixture,
        output.logits,
        output.vectors,
        pools.counts,
        largest=min(outlier_settings.largest_count, size),
        combine=outlier_settings.reading == "combined",
        bins=outlier_settings.bins,
    )


def _on_topic_vectors(
    network: PooledNetwork, inputs: CachedInputs, number: int, purpose: str, settings: TrainingSettings
) -> NDArray[np.float32]:
    """Feature vectors of pools without any off-topic image.  # (number, F)."""
    rng = epoch_generator(settings.seed, f"{purpose} pools {network.pool_size}", 0)
    pools = draw_clean_pools(inputs.labels, network.pool_size, number, rng)
    return read_pool_vectors(network, inputs, pools).vectors


def _found(
    what: str, number: int, found: FittedMixture, scores: NDArray[np.float64], labels: NDArray[np.int64]
) -> str:
    return (
        f"on-topic {what}: mixture of {found.mixture.clusters} Gaussians ({found.covariance}, "
        f"{found.mixture.dimensions} directions, shrinkage {found.shrinkage}) from {number}; "
        f"density alone tells 0 from 1 off-topic with AUC {roc_auc_score(labels, scores):.4f}"
    )
