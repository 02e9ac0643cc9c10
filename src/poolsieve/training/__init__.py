"""Training: pools, feature caches, loops, checkpoints, calibration.

Importing this package imports neither numpy nor torch; its modules that need them do.
"""

from poolsieve.training.settings import Optimization, TrainingSettings, make_settings

__all__ = ["Optimization", "TrainingSettings", "make_settings"]
