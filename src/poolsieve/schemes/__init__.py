"""Schemes: how to decide about chunks of images, all on the same runner and cost meter."""

from poolsieve.schemes.adaptive import Adaptive
from poolsieve.schemes.base import (
    Decision,
    PooledScheme,
    Scheme,
    list_schemes,
    make_scheme,
    register_scheme,
)
from poolsieve.schemes.cascade import Cascade
from poolsieve.schemes.cost import CostMeter
from poolsieve.schemes.dorfman import Dorfman
from poolsieve.schemes.evidence import Evidence
from poolsieve.schemes.glance import Glance
from poolsieve.schemes.individual import Individual
from poolsieve.schemes.oneshot import OneShot
from poolsieve.schemes.prevalence import Prevalence, PrevalenceEstimator
from poolsieve.schemes.runner import Chunk

__all__ = [
    "Adaptive",
    "Cascade",
    "Chunk",
    "CostMeter",
    "Decision",
    "Dorfman",
    "Evidence",
    "Glance",
    "Individual",
    "OneShot",
    "PooledScheme",
    "Prevalence",
    "PrevalenceEstimator",
    "Scheme",
    "list_schemes",
    "make_scheme",
    "register_scheme",
]
