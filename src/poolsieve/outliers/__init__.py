"""Outlier detection: images that belong to no known class, alone or in pools.

A Gaussian mixture is fitted to the networks' feature vectors of on-topic pools; how unlikely a vector is
under it tells how many off-topic images a pool holds (paper, section "Pooled Deep Outlier Detection").
Scoring needs numpy only, fitting scikit-learn.
"""

from poolsieve.outliers.fitting import FittedMixture, MixtureCandidate, fit_mixture
from poolsieve.outliers.histogram import ScoreHistogram, make_histogram
from poolsieve.outliers.likelihood import ScoreLikelihood, smooth_likelihood
from poolsieve.outliers.mixture import Mixture
from poolsieve.outliers.model import OutlierModel
from poolsieve.outliers.reading import OutlierReading, make_reading
from poolsieve.outliers.record import OutlierReadings

__all__ = [
    "FittedMixture",
    "Mixture",
    "MixtureCandidate",
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
