"""Measuring: sensitivity and specificity with intervals, simulation, tables and figures."""

from poolsieve.evaluation.detection_measures import Detection, detection
from poolsieve.evaluation.methods import Dorfman, Method, OneShot, Outcome, parse_method
from poolsieve.evaluation.simulate import PAPER_PREVALENCES, SimulationRow, simulate

__all__ = [
    "PAPER_PREVALENCES",
    "Detection",
    "Dorfman",
    "Method",
    "OneShot",
    "Outcome",
    "SimulationRow",
    "detection",
    "parse_method",
    "simulate",
]
