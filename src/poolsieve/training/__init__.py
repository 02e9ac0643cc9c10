"""Training: pools, feature caches, loops, checkpoints, calibration.

Importing this package imports neither numpy nor torch; its modules that need them do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolsieve.late_names import late_names
from poolsieve.training.recipes import make_settings
from poolsieve.training.settings import GlanceSettings, Optimization, OutlierSettings, TrainingSettings

if TYPE_CHECKING:
    from poolsieve.training.run import train

__all__ = ["GlanceSettings", "Optimization", "OutlierSettings", "TrainingSettings", "make_settings", "train"]

__getattr__, __dir__ = late_names(__name__, {"train": "run"})
