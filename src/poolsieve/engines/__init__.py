"""Engines that run a bundle's networks; all give the same outputs. Importing this imports none of them."""

from poolsieve.engines.agreement import EngineComparison, compare_engines
from poolsieve.engines.editions import settle_precision
from poolsieve.engines.engine import Engine, FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.engines.engine_checks import check_engine
from poolsieve.engines.registry import list_engines, open_engine

__all__ = [
    "Engine",
    "EngineComparison",
    "FrontFeatures",
    "HeadOutput",
    "NetworkOutput",
    "check_engine",
    "compare_engines",
    "list_engines",
    "open_engine",
    "settle_precision",
]
