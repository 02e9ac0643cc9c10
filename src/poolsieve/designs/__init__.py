"""Pooling designs: which images share which pool."""

from poolsieve.designs.balanced import balanced_design
from poolsieve.designs.pooling import NO_IMAGE, Guarantees, Pooling, PoolingDesign

__all__ = ["NO_IMAGE", "Guarantees", "Pooling", "PoolingDesign", "balanced_design"]
