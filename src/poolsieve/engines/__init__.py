"""Engines that run a bundle's networks; all give the same outputs. Importing this imports none of them."""

from poolsieve.engines.base import Engine, FrontFeatures, HeadOutput, NetworkOutput
from poolsieve.engines.registry import list_engines, open_engine

__all__ = ["Engine", "FrontFeatures", "HeadOutput", "NetworkOutput", "list_engines", "open_engine"]
