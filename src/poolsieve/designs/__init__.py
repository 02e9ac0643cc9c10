"""Pooling designs: which images share which pool."""

from poolsieve.designs.balanced import balanced_design
from poolsieve.designs.bernoulli import random_design
from poolsieve.designs.coherence import coherence, normalised_coherence
from poolsieve.designs.collisions import Collision, smallest_collision
from poolsieve.designs.counting_bounds import fewest_binary_tests, fewest_quantitative_tests
from poolsieve.designs.description import DesignDescription, describe
from poolsieve.designs.disjoint import disjoint_design
from poolsieve.designs.disjunctness import disjunctness_limit, exact_disjunctness, guaranteed_disjunctness
from poolsieve.designs.grid import grid_design
from poolsieve.designs.pictures import plot_design, render_text
from poolsieve.designs.pooling import NO_IMAGE, Guarantees, Pooling, PoolingDesign
from poolsieve.designs.regular import doubly_regular

__all__ = [
    "NO_IMAGE",
    "Collision",
    "DesignDescription",
    "Guarantees",
    "Pooling",
    "PoolingDesign",
    "balanced_design",
    "coherence",
    "describe",
    "disjoint_design",
    "disjunctness_limit",
    "doubly_regular",
    "exact_disjunctness",
    "fewest_binary_tests",
    "fewest_quantitative_tests",
    "grid_design",
    "guaranteed_disjunctness",
    "normalised_coherence",
    "plot_design",
    "random_design",
    "render_text",
    "smallest_collision",
]
