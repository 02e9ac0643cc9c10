"""Adding recordings to a bundle: what its networks say of labelled images; needs no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.config import PLANS_FILE, RECORDINGS_FILE, BundleConfig
from poolsieve.bundles.loading import Bundle, find_bundle, load_bundle, read_checked, read_config
from poolsieve.bundles.pool_layout import MOST_CLASSES, USUAL_IMAGES, PoolLayout, layout_for
from poolsieve.bundles.recordings import PoolRecording, Recordings
from poolsieve.engines import open_engine
from poolsieve.export.bundle_writing import add_files
from poolsieve.images.datasets import ImageDataset, load_dataset
from poolsieve.images.small_views import read_both_views
from poolsieve.planning.table import make_table, table_bytes
from poolsieve.progress import Reporter
from poolsieve.schemes.likelihood_model import LikelihoodModel
from poolsieve.schemes.runner import Features, Networks

MOST_BAD, MOST_CLEAR = 1000, 2000
"""Images that are recorded at most: more do not make plans better, but fill the memory."""
_FRONT_BATCH = 64
BAD_SHARES = (0.03, 0.09, 0.27)
"""Shares of bad images of the recorded chunks; at each of them every bad image is shown once."""
LEFT_OUT = ((0.0, 0.0), (0.0, 0.04), (0.0, 0.12), (0.4, 0.04), (0.6, 0.04))
"""Shares of clear images that look best and worst to the head and are left out of the pools, as if they were
cleared and tested at once."""
_LEAST = -100.0
"""Log-likelihoods below this say no more, and half precision holds them."""


def record_bundle(
    path_or_name: str | os.PathLike[str],
    data: Path,
    *,
    split: str = "val",
    engine: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    networks: Networks | None = None,
    reporter: Reporter | None = None,
) -> Bundle:
    """Run a bundle on labelled images and add what it says to the bundle.

    Args:
        path_or_name: The bundle, which is changed.
        data: Labelled images that its networks were not trained on; see `load_dataset`.
        split: The part of them to use.
        engine: What runs the networks.
        threads: Threads that they run on.
        seed: Of the pools that are drawn.
        flagged: Names of the class folders to be flagged; see `load_dataset`.
        clear: Names of the class folders that are not.
        networks: The bundle's, in place of an engine in this process.
        reporter: Told how far it is; by default it prints to standard error.

    Returns:
        The bundle as it is then.

    Raises:
        ValueError: The bundle is damaged, or the data do not do.
    """
    reporter = reporter or Reporter()
    bundle = load_bundle(path_or_name)
    networks = networks or open_engine(bundle, engine, threads=threads)
    dataset = load_dataset(data, flagged=flagged, clear=clear)
    pixels, small, bad = labelled_pixels(bundle, dataset, data, split, seed)
    reporter.line(f"recording {bad.sum()} bad and {(~bad).sum()} clear images of split {split}")
    config = bundle.config
    features = front_features(networks, config, small if config.shrink > 1 else pixels, reporter)
    recordings = record_readings(
        networks,
        LikelihoodModel(bundle.calibration),
        features,
        bad,
        config.pool_sizes,
        gated=config.merge == "gated",
        tested=pixels if config.joined else features,
        glanced_at=features if config.joined else small,
        seed=seed,
        reporter=reporter,
    )
    reporter.line("planning for all prevalences")
    return add_files(
        bundle.path, config, {RECORDINGS_FILE: recordings.to_bytes(), **_plans(recordings, config)}
    )


def front_features(
    networks: Networks, config: BundleConfig, pixels: NDArray[np.uint8], reporter: Reporter
) -> NDArray[np.float32]:
    """Front features of many images, with a word on how far it is.  # (N, C, H, W)."""
    features = np.empty((len(pixels), *config.feature_shape), dtype=np.float32)
    with reporter.task("fronts", len(pixels)) as fronts:
        for begin in range(0, len(pixels), _FRONT_BATCH):
            rows = slice(begin, begin + _FRONT_BATCH)
            features[rows] = networks.front(pixels[rows]).features
            fronts.advance(len(features[rows]), f"{fronts.rate:.0f} images/s")
    return features


def replan_bundle(path_or_name: str | os.PathLike[str]) -> Bundle:
    """Make plans of a bundle and its editions anew from recordings, such as after a change of the planner.

    Raises:
        ValueError: It has no recordings, or is damaged.
    """
    folder = find_bundle(path_or_name)
    config = read_config(folder)
    if RECORDINGS_FILE not in config.files:
        raise ValueError(f"{folder} has no recordings; make them with: poolsieve bundles record")
    recordings = Recordings.from_bytes(read_checked(folder, config, RECORDINGS_FILE))
    add_files(folder, config, _plans(recordings, config))
    for edition in config.editions:
        if RECORDINGS_FILE in read_config(folder / edition).files:
            replan_bundle(folder / edition)
    return load_bundle(folder)


def _plans(recordings: Recordings, config: BundleConfig) -> dict[str, bytes]:
    table = make_table(recordings, config.pool_sizes, config.cost, gated=config.merge == "gated")
    return {PLANS_FILE: table_bytes(table)}


def labelled_pixels(
    bundle: Bundle,
    dataset: ImageDataset,
    data: Path,
    split: str,
    seed: int,
    most: tuple[int, int] = (MOST_BAD, MOST_CLEAR),
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_]]:
    """Images as networks take them, the same as the glance does, and which are bad.

    At most so many bad and clear ones are drawn.
    """
    positions = dataset.of_split(split)
    labels = dataset.labels[positions] == 1
    rng = np.random.Generator(np.random.PCG64(seed))
    kept = [
        rng.permutation(positions[labels == kind])[:number]
        for kind, number in zip((True, False), most, strict=True)
    ]
    if not len(kept[0]) or not len(kept[1]):
        raise ValueError(f"{data}: split {split!r} needs bad and clear images to record")
    chosen = np.sort(np.concatenate(kept))
    size, resize_mode = bundle.config.input_size, bundle.config.resize_mode
    shrink = bundle.config.small_shrink
    small = pixels = np.empty((len(chosen), size, size, 3), dtype=np.uint8)
    for row, position in enumerate(chosen):
        pixels[row], glanced_at = read_both_views(dataset.files[position], size, resize_mode, shrink)
        if small is not pixels:
            small[row] = glanced_at
        elif not np.array_equal(glanced_at, pixels[row]):  # most data sets need no second array
            small = pixels.copy()
            small[row] = glanced_at
    return pixels, small, dataset.labels[chosen] == 1


def record_readings(
    networks: Networks,
    likelihoods: LikelihoodModel,
    features: Features,
    bad: NDArray[np.bool_],
    pool_sizes: Sequence[int],
    *,
    gated: bool,
    tested: Features | NDArray[np.uint8] | None = None,
    glanced_at: Features | NDArray[np.uint8] | None = None,
    seed: int = 0,
    reporter: Reporter | None = None,
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
        tested: What the individual network takes of the images; None for their front features.
        glanced_at: What a glance takes of them; None if there is no glance.
        seed: Of the draws.
        reporter: Told how far it is.
    """
    output = networks.head(features)
    individual = networks.individual(features if tested is None else tested)
    scores = likelihoods.image_scores(individual.logits).astype(np.float32)
    heads = _ratios(likelihoods.of_heads(output.logits)) if likelihoods.knows_head else None
    glances = None
    if likelihoods.knows_glance and glanced_at is not None:
        glances = _ratios(likelihoods.of_glances(networks.glance(glanced_at)))
    gate = output.gate if gated else None
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = [
        (layout, _draw_chunks(bad, allowed, layout, rng), band)
        for size in pool_sizes
        for layout, allowed, band in _layouts(bad, heads, size)
    ]
    pools = []
    total = sum(len(chunks) * layout.pooling.pool_count for layout, chunks, _ in drawn)
    with (reporter or Reporter(quiet=True)).task("pools", total) as task:
        for layout, chunks, band in drawn:
            tables, counts = [], []
            for chunk in chunks:
                pooled = networks.pooled(features, gate, chunk[layout.pooling.pools], layout.pool_size)
                readings = likelihoods.of_pools(pooled.logits, layout.pooling.pool_sizes, pooled.counts)
                assert readings.log_likelihoods is not None
                tables.append(_half(readings.log_likelihoods[0]))
                counts.append(readings.counts[0].astype(np.uint8))
                task.advance(layout.pooling.pool_count, f"{task.rate:.0f} pools/s")
            shape = (len(chunks), layout.classes, layout.pools_per_class)
            logs = np.stack(tables).reshape(*shape, layout.pool_size + 1)
            pools.append(PoolRecording(chunks.astype(np.int32), logs, np.stack(counts).reshape(shape), band))
    return Recordings(bad, scores, heads, tuple(pools), glances)


def _ratios(log_likelihoods: NDArray[np.float64]) -> NDArray[np.float32]:
    """Log-likelihood ratios, bad to clear.  # (N, 2) -> (N,)."""
    return np.subtract(log_likelihoods[:, 1], log_likelihoods[:, 0]).astype(np.float32)


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
