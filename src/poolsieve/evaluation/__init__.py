"""Measuring: sensitivity and specificity with intervals, simulation, tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolsieve.evaluation.detection_measures import Detection, detection
from poolsieve.evaluation.methods import Dorfman, Method, OneShot, Outcome, parse_method
from poolsieve.evaluation.simulate import PAPER_PREVALENCES, SimulationRow, simulate
from poolsieve.late_names import late_names

if TYPE_CHECKING:
    from poolsieve.evaluation.competitors import Competitor
    from poolsieve.evaluation.detection_figure import plot_detection
    from poolsieve.evaluation.evaluating import evaluate
    from poolsieve.evaluation.evaluation_plan import EvaluationPlan
    from poolsieve.evaluation.report_page import write_report
    from poolsieve.evaluation.results import Evaluation

__all__ = [
    "PAPER_PREVALENCES",
    "Competitor",
    "Detection",
    "Dorfman",
    "Evaluation",
    "EvaluationPlan",
    "Method",
    "OneShot",
    "Outcome",
    "SimulationRow",
    "detection",
    "evaluate",
    "parse_method",
    "plot_detection",
    "simulate",
    "write_report",
]

# Simulating needs neither images nor engines.
__getattr__, __dir__ = late_names(
    __name__,
    {
        "Competitor": "competitors",
        "Evaluation": "results",
        "EvaluationPlan": "evaluation_plan",
        "evaluate": "evaluating",
        "plot_detection": "detection_figure",
        "write_report": "report_page",
    },
)
