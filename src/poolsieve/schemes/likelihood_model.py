"""What the networks' outputs are worth, by the bundle's calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from poolsieve.calibration import Calibration, paired
from poolsieve.decoders import CountNoise, Readings


class Likelihoods(Protocol):
    """What stages ask of outputs, whether networks gave them or recordings do; see `LikelihoodModel`."""

    @property
    def knows_head(self) -> bool:
        """Whether the cheap head's logits can be used."""

    @property
    def knows_glance(self) -> bool:
        """Whether the logits of a glance can be used."""

    def of_images(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) by the individual network."""

    def image_scores(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Scores by the individual network."""

    def of_heads(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) by the head."""

    def of_glances(self, logits: NDArray[Any]) -> NDArray[np.float64]:
        """Log-likelihoods (clear, bad) by a glance."""

    def of_pools(
        self, logits: NDArray[Any], sizes: NDArray[np.integer], counts: NDArray[np.integer] | None = None
    ) -> Readings:
        """Readings of pools."""

    def count_noise(self, pool_size: int) -> CountNoise:
        """How counts of pools err."""


@dataclass(frozen=True)
class LikelihoodModel:
    """Turns outputs into likelihoods and scores, by the bundle's calibration.

    Attributes:
        calibration: What was learnt on validation data.
    """

    calibration: Calibration

    @property
    def knows_head(self) -> bool:
        """Whether the cheap head's logits can be used."""
        return self.calibration.head is not None

    def of_images(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Log P(outputs of the individual network | clear, bad), up to a constant.  # (k, 2) -> (k, 2)."""
        return self.calibration.individual.log_likelihoods(logits)

    def image_scores(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Calibrated probability of being bad by the individual network.  # (k, 2) -> (k,).

        It holds where bad images are as frequent as in the validation data, so that its threshold means the
        same whatever the prevalence is.
        """
        result: NDArray[np.float64] = np.exp(self.calibration.individual.log_probabilities(logits)[..., 1])
        return result

    def of_heads(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Log P(head's logit | clear, bad), up to a constant.  # (k,) -> (k, 2)."""
        if self.calibration.head is None:
            raise ValueError("the bundle's head is not calibrated; use a scheme without it")
        return self.calibration.head.log_likelihoods(paired(logits))

    @property
    def knows_glance(self) -> bool:
        """Whether the logits of a glance can be used."""
        return self.calibration.glance is not None

    def of_glances(self, logits: ArrayLike) -> NDArray[np.float64]:
        """Log P(glance's logit | clear, bad), up to a constant.  # (k,) -> (k, 2)."""
        if self.calibration.glance is None:
            raise ValueError("the bundle has no calibrated glance; use a scheme without it")
        return self.calibration.glance.log_likelihoods(paired(logits))

    def of_pools(
        self, logits: ArrayLike, sizes: NDArray[np.integer], counts: NDArray[np.integer] | None = None
    ) -> Readings:
        """Readings of one chunk's pools: the arg max of the outputs (eq:qmpnn_output), and likelihoods.

        Args:
            logits: Outputs of the counting network for pools of r.  # (m, r + 1)
            sizes: How many images each pool really holds; no more can be bad.  # (m,)
            counts: What is read, where that is not the arg max.  # (m,)
        """
        table = np.asarray(logits, dtype=np.float64)
        scaling = self.calibration.counting[table.shape[1] - 1].scaling
        read = np.minimum(table.argmax(axis=1) if counts is None else counts, sizes)
        return Readings(read[None], scaling.log_likelihoods(table)[None])

    def count_noise(self, pool_size: int) -> CountNoise:
        """How counts of pools err, by the validation pools' confusion matrix."""
        pools = np.array(self.calibration.counting[pool_size].confusion)
        true, read = (np.repeat(axis.ravel(), pools.ravel()) for axis in np.indices(pools.shape))
        return CountNoise.estimate(true, read, pool_size)
