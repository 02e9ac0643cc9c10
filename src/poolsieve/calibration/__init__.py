"""Calibration on validation data: what a network's outputs are worth, as numbers that travel with it.

Nothing here needs torch, so that a calibration can be read where images are moderated.
"""

from poolsieve.calibration.confusion import confusion_counts, draw_confusion
from poolsieve.calibration.error_correlation import ErrorCorrelation, error_correlation, measure_correlation
from poolsieve.calibration.record import Calibration, CountingCalibration, calibrate_counting
from poolsieve.calibration.roc import RocCurve, draw_roc, roc_curve
from poolsieve.calibration.scaling import EVEN, OutputScaling, fit_scaling, paired

__all__ = [
    "EVEN",
    "Calibration",
    "CountingCalibration",
    "ErrorCorrelation",
    "OutputScaling",
    "RocCurve",
    "calibrate_counting",
    "confusion_counts",
    "draw_confusion",
    "draw_roc",
    "error_correlation",
    "fit_scaling",
    "measure_correlation",
    "paired",
    "roc_curve",
]
