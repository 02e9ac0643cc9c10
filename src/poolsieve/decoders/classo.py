"""CLasso: the Lasso with every entry kept between 0 and 1 (paper, section "CS/GT Decoding Algorithms")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from poolsieve.decoders.decoder import Decoder, Decoding, Interval, parameter, register_decoder
from poolsieve.decoders.kernels.coordinate_descent import constrained_lasso
from poolsieve.decoders.readings import Readings
from poolsieve.designs import Pooling


@register_decoder("classo")
@dataclass(frozen=True)
class CLasso(Decoder):
    """Minimise ‖y − Φx‖² + λ‖x‖₁ over 0 ≤ x ≤ 1 and flag where x > τ.

    The score is x. Solved by coordinate descent over the images that a safe rule cannot clear at once;
    written by hand because a general conic solver spends its time on setting up (`benchmarks/decoders.py`).

    Attributes:
        penalty: λ.
        threshold: τ.
    """

    penalty: float = parameter(0.5, Interval(low=0))
    threshold: float = parameter(0.3, Interval(low=0, high=1))

    reads_counts: ClassVar = True
    thresholds_scores: ClassVar = True
    default_grid: ClassVar = {
        # From none to 2c of the paper's design, with which one image in c pools that read 1 comes out as 0.
        "penalty": (0.0, 0.01, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0),
        "threshold": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    }

    def _decode(self, readings: Readings, design: Pooling, priors: NDArray[np.float64]) -> Decoding:
        estimate, objective, solved = constrained_lasso(
            readings.counts.astype(np.float64), float(self.penalty), design.pools_of
        )
        return Decoding(estimate, estimate > self.threshold, solved, objective)
