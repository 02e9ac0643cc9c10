"""Runs in parts: the same verdicts by any number of workers, on one machine or on a Ray cluster."""

from poolsieve.distributed.driving import moderate_in_parts
from poolsieve.distributed.opening import BundleOpening, Opening
from poolsieve.distributed.run_folder import RunFolder, RunSettings, run_verdicts

__all__ = [
    "BundleOpening",
    "Opening",
    "RunFolder",
    "RunSettings",
    "moderate_in_parts",
    "run_verdicts",
]
