"""Pooling designs: which images share which pool."""

from poolsieve.designs.balanced import balanced_design
from poolsieve.designs.collisions import Collision, smallest_collision
from poolsieve.designs.description import DesignDescription, describe
from poolsieve.designs.matrix_pictures import plot_design, render_text
from poolsieve.designs.pooling import NO_IMAGE, Guarantees, Pooling, PoolingDesign
from poolsieve.designs.properties import (
    coherence,
    disjunctness_limit,
    exact_disjunctness,
    fewest_binary_tests,
    fewest_quantitative_tests,
    guaranteed_disjunctness,
    normalised_coherence,
)
from poolsieve.designs.simple_designs import disjoint_design, doubly_regular, grid_design, random_design

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
