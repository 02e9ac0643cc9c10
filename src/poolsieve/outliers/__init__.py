"""Outlier detection: images that belong to no known class, alone or in pools.

A Gaussian mixture is fitted to the networks' feature vectors of on-topic pools; how unlikely a vector is
under it tells how many off-topic images a pool holds (paper, section "Pooled Deep Outlier Detection").
Scoring needs numpy only, fitting scikit-learn.
"""

from poolsieve.outliers.fitting import FittedMixture, fit_mixture
from poolsieve.outliers.mixture import GaussianMixture
from poolsieve.outliers.model import OutlierModel
from poolsieve.outliers.outlier_reading import OutlierReading, OutlierReadings, make_reading
from poolsieve.outliers.score_counts import (
    ScoreHistogram,
    ScoreLikelihood,
    make_histogram,
    smooth_likelihood,
)

__all__ = [
    "FittedMixture",
    "GaussianMixture",
    "OutlierModel",
    "OutlierReading",
    "OutlierReadings",
    "ScoreHistogram",
    "ScoreLikelihood",
    "fit_mixture",
    "make_histogram",
    "make_reading",
    "smooth_likelihood",
]
