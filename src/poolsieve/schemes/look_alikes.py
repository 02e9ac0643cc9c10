"""Images that look alike are judged once, so that a burst of one scene does not fill a chunk's pools.

Frames of a burst, and copies of one file, stand or fall together: in pools they are many bad images at once,
which is what pools resolve worst. Of such a group only the one that looks worst is pooled.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from poolsieve.schemes.runner import Chunk, Features, Images

ALIKE = 0.95
"""Correlation of front features, less the chunk's mean, above which images look alike.

On validation images .95 to .98 of a burst's frames (cropped by up to a tenth, other light, compressed anew)
were joined by it, and no two unrelated images in 300 chunks of 100, with either shipped bundle.
"""
FEWEST_CHANNELS = 32
"""With fewer, unrelated images would be taken for alike."""


def find_stand_ins(chunk: Chunk, images: Images) -> NDArray[np.intp]:
    """For each image of a chunk the one that stands for it in pools, mostly itself.  # (k,).

    Args:
        chunk: The chunk.
        images: Images that are to be pooled; the front is run on them.
    """
    stand_ins = chunk.everyone
    groups = find_groups(chunk.features(images)[images])
    if len(groups) > groups.max() + 1:
        worst = chunk.head_logits(images) if chunk.likelihoods.knows_head else np.zeros(len(images))
        order = np.lexsort((-worst, groups))  # by group, the worst first
        firsts = order[np.append(True, np.diff(groups[order]) > 0)]  # of each group, in their order
        stand_ins[images] = images[firsts[groups]]
    return stand_ins


def find_groups(features: Features) -> NDArray[np.intp]:
    """Numbers, from 0 on, of groups of images that look alike.  # (k, C, H, W) -> (k,)."""
    if features.ndim != 4 or features.shape[1] < FEWEST_CHANNELS:
        return np.arange(len(features))
    means = features.mean(axis=(2, 3), dtype=np.float64)
    means -= means.mean(axis=0)
    lengths = np.linalg.norm(means, axis=1)
    alike = means @ means.T >= ALIKE * np.outer(lengths, lengths)
    groups: NDArray[np.intp]
    _, groups = scipy.sparse.csgraph.connected_components(alike, directed=False)
    return groups.astype(np.intp)
