"""Estimates with their intervals, proportions and areas under ROC curves; imports nothing else of poolsieve.

Nothing here imports `scipy.stats`, which takes longer to load than the first verdict may; the tests compare
with it.
"""

from poolsieve.statistics.auc import auc, auc_difference, auc_estimate, auc_from_counts
from poolsieve.statistics.estimates import Z95, Estimate
from poolsieve.statistics.proportions import (
    Proportion,
    exact_lower,
    exact_upper,
    mid_p,
    predicted_share,
    proportion,
)
from poolsieve.statistics.softmax_fit import fit_softmax

__all__ = [
    "Z95",
    "Estimate",
    "Proportion",
    "auc",
    "auc_difference",
    "auc_estimate",
    "auc_from_counts",
    "exact_lower",
    "exact_upper",
    "fit_softmax",
    "mid_p",
    "predicted_share",
    "proportion",
]
