"""Recording what a bundle's networks say of validation images and of pools of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.pool_layout import MOST_CLASSES, USUAL_IMAGES, PoolLayout, layout_for
from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.schemes.likelihood_model import LikelihoodModel
from poolsieve.schemes.runner import Features, Networks

BAD_SHARES = (0.03, 0.09, 0.27)
"""Shares of bad images of the recorded chunks; at each of them every bad image is shown once."""
LEFT_OUT = ((0.0, 0.0), (0.0, 0.04), (0.0, 0.12), (0.4, 0.04), (0.6, 0.04))
"""Shares of clear images that look best and worst to the head and are left out of the pools, as if they were
cleared and tested at once."""
_LEAST = -100.0
"""Log-likelihoods below this say no more, and half precision holds them."""

Progress = Callable[[int, int], None]
"""Is told how many pools are done, of how many."""


def record_readings(
    networks: Networks,
    likelihoods: LikelihoodModel,
    features: Features,
    bad: NDArray[np.bool_],
    pool_sizes: Sequence[int],
    *,
    gated: bool,
    pixels: NDArray[np.uint8] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recordings:
    """Record all that planning needs.

    Chunks are drawn at three shares of bad images, and without the images that look worst to the head, since
    pools have other members then. How the outcome depends on the prevalence is worked out afterwards from how
    many bad images each image shared a pool with, so any prevalence can be planned from the one recording.

    Args:
        networks: An engine.
        likelihoods: What its outputs are worth.
        features: Front features of labelled images that nothing was trained on.  # (N, C, H, W)
        bad: Their labels.  # (N,)
        pool_sizes: Sizes that there are counting networks for.
        gated: Whether features are multiplied by the gate before they are merged.
        pixels: The images, for a glance at them if the networks have one.  # (N, S, S, 3)
        seed: Of the draws.
        progress: Told how far it is.
    """
    output = networks.head(features)
    scores = likelihoods.image_scores(networks.individual(features).logits).astype(np.float32)
    heads = None
    if likelihoods.knows_head:
        heads = _ratios(likelihoods.of_heads(output.logits))
    glances = None
    if likelihoods.knows_glance and pixels is not None:
        glances = _ratios(likelihoods.of_glances(networks.glance(pixels)))
    gate = output.gate if gated else None
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = [
        (layout, _draw_chunks(bad, allowed, layout, rng), band)
        for size in pool_sizes
        for layout, allowed, band in _layouts(bad, heads, size)
    ]
    total = sum(chunks.shape[0] * layout.pooling.pool_count for layout, chunks, _ in drawn)
    done, pools = 0, []
    for layout, chunks, band in drawn:
        tables, counts = [], []
        for chunk in chunks:
            pooled = networks.pooled(features, gate, chunk[layout.pooling.pools], layout.pool_size)
            readings = likelihoods.of_pools(pooled.logits, layout.pooling.pool_sizes, pooled.counts)
            assert readings.log_likelihoods is not None
            tables.append(_half(readings.log_likelihoods[0]))
            counts.append(readings.counts[0].astype(np.uint8))
            done += layout.pooling.pool_count
            if progress is not None:
                progress(done, total)
        shape = (len(chunks), layout.classes, layout.pools_per_class)
        pools.append(
            PoolRecording(
                chunks.astype(np.int32),
                np.stack(tables).reshape(*shape, layout.pool_size + 1),
                np.stack(counts).reshape(shape),
                band,
            )
        )
    return Recordings(bad, scores, heads, tuple(pools), glances)


def _ratios(log_likelihoods: NDArray[np.float64]) -> NDArray[np.float32]:
    """Log-likelihood ratios, bad to clear.  # (N, 2) -> (N,)."""
    ratios: NDArray[np.float32] = (log_likelihoods[:, 1] - log_likelihoods[:, 0]).astype(np.float32)
    return ratios


def _layouts(
    bad: NDArray[np.bool_], heads: NDArray[np.float32] | None, size: int
) -> list[tuple[PoolLayout, NDArray[np.bool_], tuple[float, float]]]:
    """Layout, images that are pooled, and the band of the head that they lie in, for one pool size."""
    found = []
    for best, worst in LEFT_OUT if heads is not None else LEFT_OUT[:1]:
        floor, cut = -np.inf, np.inf
        allowed = np.ones(len(bad), dtype=bool)
        if worst and heads is not None:
            floor = float(np.float32(np.quantile(heads[~bad], best))) if best else -np.inf
            cut = float(np.float32(np.quantile(heads[~bad], 1 - worst)))
            allowed = (floor <= heads) & (heads < cut)
            if not (allowed & bad).any() or (allowed & ~bad).sum() < size:
                continue  # the head finds them all
        # More pools than images never pay; beside a head, no more than two per image do.
        classes = min(MOST_CLASSES, size - 1) if not worst else min(2, max(size // 2, 1))
        images = min(USUAL_IMAGES, int((allowed & ~bad).sum()))
        found.append((layout_for(images, size, classes), allowed, (floor, cut)))
    return found


def _draw_chunks(
    bad: NDArray[np.bool_], allowed: NDArray[np.bool_], layout: PoolLayout, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Images of each chunk.  # (chunks, n)."""
    clear = np.flatnonzero(allowed & ~bad)
    chunks = []
    for share in BAD_SHARES:
        order = rng.permutation(np.flatnonzero(allowed & bad))
        each = max(1, round(share * layout.images))
        for begin in range(0, len(order), each):
            some = order[begin : begin + each]
            rest = rng.choice(clear, layout.images - len(some), replace=False)
            chunks.append(rng.permutation(np.concatenate([some, rest])))
    return np.stack(chunks)


def _half(likelihoods: NDArray[np.float64]) -> NDArray[np.float16]:
    table = likelihoods - likelihoods.max(axis=-1, keepdims=True)
    return np.maximum(table, _LEAST).astype(np.float16)
