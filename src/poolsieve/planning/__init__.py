"""Choosing the cheapest way to decide that meets a target, from recorded readings."""

from poolsieve.planning.plan_controller import PlanController, Switch
from poolsieve.planning.plans import Plan, Target, load_plan, save_plan
from poolsieve.planning.search import Choices, plan, search
from poolsieve.planning.table import make_table

__all__ = [
    "Choices",
    "Plan",
    "PlanController",
    "Switch",
    "Target",
    "load_plan",
    "make_table",
    "plan",
    "save_plan",
    "search",
]
