"""Learning what is on topic from trained networks (paper, "Pooled Deep Outlier Detection")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from poolsieve.networks import PooledNetwork
from poolsieve.networks.trained import TrainedModel
from poolsieve.outliers import OutlierReading, OutlierReadings, fit_mixture, make_reading
from poolsieve.outliers.model import swapped
from poolsieve.progress import Reporter
from poolsieve.statistics import auc
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import NetworkOutputs, read_images, read_pools
from poolsieve.training.sampling import clean_numbers, draw_balanced, epoch_generator, seeded_pools
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
    if settings.outliers is None:
        raise ValueError("the settings are for classification; give them outliers=OutlierSettings()")
    fitting = _Fitting(train, validation, settings.outliers, settings.seed, reporter)
    individual = fitting.individual(model)
    counting = {size: fitting.counting(network) for size, network in sorted(model.counting.items())}
    return OutlierReadings(individual, counting)


@dataclass(frozen=True)
class _Fitting:
    train: CachedInputs
    validation: CachedInputs
    settings: OutlierSettings
    seed: int
    reporter: Reporter

    def individual(self, model: TrainedModel) -> OutlierReading:
        on_topic, labels = np.flatnonzero(self.train.labels == 0), self.validation.labels
        learnt = read_images(model.individual, model.gate, self.train, on_topic).vectors
        judged = read_images(model.individual, model.gate, self.validation)
        held_out = judged.vectors[labels == 0]
        if self.settings.histogram_images is not None:
            rng = epoch_generator(self.seed, "histogram images", 0)
            chosen = draw_balanced(labels, self.settings.histogram_images, rng)
            judged, labels = (
                replace(judged, logits=judged.logits[chosen], vectors=judged.vectors[chosen]),
                labels[chosen],
            )
        reading = self._reading("images", learnt, held_out, judged, labels)
        scores = reading.mixture.scores(judged.vectors)
        if message := swapped(scores[labels == 0], scores[labels == 1]):
            self.reporter.line(f"warning: {message}")
        return reading

    def counting(self, network: PooledNetwork) -> OutlierReading:
        size = network.pool_size
        number = self.settings.pools_to_fit(int((self.train.labels == 0).sum()), size)
        held_out_number = round(HELD_OUT_SHARE * number)
        learnt, _ = self._read(network, self.train, clean_numbers(size, number), "mixture")
        held_out, _ = self._read(network, self.validation, clean_numbers(size, held_out_number), "held-out")
        numbers = [self.settings.histogram_pools] * (size + 1)
        judged, counts = self._read(network, self.validation, numbers, "histogram")
        return self._reading(f"pools of {size}", learnt.vectors, held_out.vectors, judged, counts)

    def _read(
        self, network: PooledNetwork, inputs: CachedInputs, numbers: list[int], purpose: str
    ) -> tuple[NetworkOutputs, NDArray[np.int64]]:
        """What a network says of drawn pools, and their counts."""
        pools = seeded_pools(inputs.labels, numbers, self.seed, purpose)
        return read_pools(network, inputs, pools), pools.counts

    def _reading(
        self,
        what: str,
        learnt: NDArray[np.float32],
        held_out: NDArray[np.float32],
        judged: NetworkOutputs,
        counts: NDArray[np.int64],
    ) -> OutlierReading:
        """Fit a mixture to learnt vectors (N, F), and tell by what was judged what its scores mean."""
        found = fit_mixture(learnt, held_out, clusters=self.settings.clusters, seed=self.seed)
        scores, few = found.mixture.scores(judged.vectors), counts <= 1
        self.reporter.line(
            f"on-topic {what}: mixture of {found.mixture.clusters} Gaussians ({found.covariance}, "
            f"{found.mixture.dimensions} directions, shrinkage {found.shrinkage}) from {len(learnt)}; "
            f"density alone tells 0 from 1 off-topic with AUC {auc(scores[few], counts[few]):.4f}"
        )
        return make_reading(
            found.mixture,
            judged.logits,
            judged.vectors,
            counts,
            largest=min(self.settings.largest_count, judged.logits.shape[1] - 1),
            combine=self.settings.reading == "combined",
            bins=self.settings.bins,
        )
