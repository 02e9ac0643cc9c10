"""How alike the columns of the matrix are: what two images share."""

from __future__ import annotations

import numpy as np

from poolsieve.designs.pooling import Pooling

_BLOCK_ENTRIES = 2**22
"""Products of columns that are held at once, so that dense designs of many images fit into memory."""


def coherence(design: Pooling) -> int:
    """The most pools that any two images share: the largest dot product of two columns of Φ.

    This is what the paper's appendix calls mutual coherence.
    """
    if design.guarantees.single_overlap:
        # Without a 2×2 block of ones no two images share two pools, so no products are needed.
        return int(design.pool_sizes.max() > 1)
    return int(_largest_product(design, np.ones(design.images)))


def normalised_coherence(design: Pooling) -> float:
    """The largest cosine of the angle between two columns, 0 for images in no pool.

    This is the mutual coherence of compressed sensing; it is λ/c where every image is in c pools.
    """
    weights = design.image_weights
    if design.guarantees.equal_images:
        return coherence(design) / int(weights[0]) if weights[0] else 0.0
    return float(_largest_product(design, 1 / np.sqrt(np.maximum(weights, 1))))


def _largest_product(design: Pooling, scale: np.ndarray) -> float:
    """Largest dot product of two different columns, column j times scale[j]."""
    columns = (design.sparse * scale).tocsc()
    block = max(1, _BLOCK_ENTRIES // design.images)
    largest = 0.0
    for start in range(0, design.images, block):
        products = (columns[:, start : start + block].T @ columns).tocoo()
        others = products.row + start != products.col
        largest = max(largest, products.data[others].max(initial=0.0))
    return largest
