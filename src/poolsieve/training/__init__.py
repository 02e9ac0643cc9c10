"""Training: pools, feature caches, loops, checkpoints, calibration.

Importing this package does not import torch; its modules that need torch do.
"""

from poolsieve.training.plan import Optimization, TrainingPlan, make_plan
from poolsieve.training.sampling import PoolBatch, balanced_epoch, draw_pools, pool_shares, weighted_accuracy

__all__ = [
    "Optimization",
    "PoolBatch",
    "TrainingPlan",
    "balanced_epoch",
    "draw_pools",
    "make_plan",
    "pool_shares",
    "weighted_accuracy",
]
