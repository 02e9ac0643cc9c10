"""Training: pools, feature caches, loops, checkpoints, calibration.

Importing this package imports neither numpy nor torch; its modules that need them do.
"""

from poolsieve.training.recipes import make_settings
from poolsieve.training.settings import Optimization, TrainingSettings

__all__ = ["Optimization", "TrainingSettings", "make_settings"]
