"""Images that look alike are judged once, so that a burst of one scene does not fill a chunk's pools.

Frames of a burst, and copies of one file, stand or fall together: in pools they are many bad images at once,
which is what pools resolve worst. Of such a group only the one that looks worst takes part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from poolsieve.designs import NO_IMAGE, Pooling
from poolsieve.schemes.runner import Chunk, Features
from poolsieve.schemes.scheme import Scheme
from poolsieve.schemes.stages import BY_INDIVIDUAL, Decision

ALIKE = 0.95
"""Correlation of front features, less the chunk's mean, above which images look alike.

On validation images .95 to .98 of a burst's frames (cropped by up to a tenth, other light, compressed anew)
were joined by it, and no two unrelated images in 300 chunks of 100, with either shipped bundle.
"""
FEWEST_CHANNELS = 32
"""With fewer, unrelated images would be taken for alike."""


def decide_once(
    scheme: Scheme, chunk: Chunk, rng: np.random.Generator, groups: NDArray[np.intp] | None = None
) -> Decision:
    """Decide about a chunk; where it has pools, one image of each group that looks alike stands for all.

    The others are clear if it is, and have a test of their own if it is flagged.

    Args:
        scheme: Decides.
        chunk: The images.
        rng: Deals them into pools.
        groups: Who looks alike, by numbers from 0 on; None finds it in their front features.  # (k,)
    """
    if not scheme.pools:
        return scheme.decide(chunk, rng)
    groups = find_groups(chunk.features(chunk.everyone)) if groups is None else groups
    if len(groups) == groups.max() + 1:
        return scheme.decide(chunk, rng)
    worst = chunk.head_logits(chunk.everyone) if chunk.evidence.knows_head else np.zeros(len(chunk))
    order = np.lexsort((-worst, groups))  # by group, the worst first
    firsts = order[np.append(True, np.diff(groups[order]) > 0)]  # of each group, in their order
    stands_for = firsts[groups]
    standing = np.sort(firsts)
    decision = scheme.decide(chunk.only(standing), rng)
    return _spread(scheme, chunk, decision, standing, stands_for)


def find_groups(features: Features) -> NDArray[np.intp]:
    """Numbers, from 0 on, of groups of images that look alike.  # (k, C, H, W) -> (k,)."""
    if features.shape[1] < FEWEST_CHANNELS:
        return np.arange(len(features))
    means = features.mean(axis=(2, 3), dtype=np.float64)
    means -= means.mean(axis=0)
    lengths = np.linalg.norm(means, axis=1)
    alike = means @ means.T >= ALIKE * np.outer(lengths, lengths)
    groups: NDArray[np.intp] = connected_components(alike, directed=False)[1].astype(np.intp)
    return groups


def _spread(
    scheme: Scheme,
    chunk: Chunk,
    decision: Decision,
    standing: NDArray[np.intp],
    stands_for: NDArray[np.intp],
) -> Decision:
    """A decision about the images that stand for others as one about all of the chunk."""
    number = np.searchsorted(standing, stands_for)
    scores, flags, decided_by = decision.scores[number], decision.flags[number], decision.decided_by[number]
    others = stands_for != np.arange(len(chunk))
    tested = np.flatnonzero(others & flags)
    scores[tested] = chunk.evidence.image_scores(chunk.test(tested))
    flags[tested], decided_by[tested] = scores[tested] > scheme.threshold, BY_INDIVIDUAL
    pooling = decision.pooling
    if pooling is not None:
        numbers = np.append(standing, NO_IMAGE)  # the last entry answers for empty places
        pooling = Pooling(numbers[pooling.pools], len(chunk), pool_size=pooling.pool_size)
    return replace(
        decision,
        scores=scores,
        flags=flags,
        decided_by=decided_by,
        pooling=pooling,
        priors=None if decision.priors is None else decision.priors[number],
        pool_scores=None if decision.pool_scores is None else decision.pool_scores[number],
        stands_for=stands_for,
    )
