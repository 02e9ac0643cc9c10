"""Adding recordings to a bundle: what its networks say of labelled images; needs no torch."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.config import CONFIG_FILE, PLANS_FILE, RECORDINGS_FILE, BundleConfig
from poolsieve.bundles.loading import Bundle, find_bundle, load_bundle, read_checked, read_config
from poolsieve.files import write_atomically
from poolsieve.images.datasets import ImageDataset, load_dataset
from poolsieve.images.small_views import read_both_views
from poolsieve.progress import ProgressTask, Reporter

MOST_BAD, MOST_CLEAR = 1000, 2000
"""Images that are recorded at most: more do not make plans better, but fill the memory."""
_FRONT_BATCH = 64


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
        reporter: Told how far it is; by default it prints to standard error.

    Returns:
        The bundle as it is then.

    Raises:
        ValueError: The bundle is damaged, or the data do not do.
    """
    from poolsieve.engines import open_engine
    from poolsieve.export.readings import record_readings
    from poolsieve.planning.table import make_table, table_bytes
    from poolsieve.schemes import LikelihoodModel

    reporter = reporter or Reporter()
    bundle = load_bundle(path_or_name)
    networks = open_engine(bundle, engine, threads=threads)
    dataset = load_dataset(data, flagged=flagged, clear=clear)
    pixels, small, bad = _labelled_pixels(bundle, dataset, data, split, seed)
    reporter.line(f"recording {bad.sum()} bad and {(~bad).sum()} clear images of split {split}")
    features = np.empty((len(pixels), *bundle.config.feature_shape), dtype=np.float32)
    with reporter.task("fronts", len(pixels)) as fronts:
        for begin in range(0, len(pixels), _FRONT_BATCH):
            rows = slice(begin, begin + _FRONT_BATCH)
            features[rows] = networks.front(pixels[rows]).features
            fronts.advance(len(features[rows]), f"{fronts.rate:.0f} images/s")
    with ExitStack() as shown:
        task: ProgressTask | None = None
        known = 0

        def progress(done: int, total: int) -> None:
            nonlocal task, known
            task = task or shown.enter_context(reporter.task("pools", total))
            task.advance(done - known, f"{task.rate:.0f} pools/s")
            known = done

        recordings = record_readings(
            networks,
            LikelihoodModel(bundle.calibration),
            features,
            bad,
            bundle.config.pool_sizes,
            gated=bundle.config.merge == "gated",
            pixels=small,
            seed=seed,
            progress=progress,
        )
    reporter.line("planning for all prevalences")
    plans = make_table(
        recordings, bundle.config.pool_sizes, bundle.config.cost, gated=bundle.config.merge == "gated"
    )
    contents = {RECORDINGS_FILE: recordings.to_bytes(), PLANS_FILE: table_bytes(plans)}
    return add_files(bundle.path, bundle.config, contents)


def replan_bundle(path_or_name: str | os.PathLike[str]) -> Bundle:
    """Make a bundle's plans anew from its recordings, such as after a change of the planner.

    Raises:
        ValueError: It has no recordings, or is damaged.
    """
    from poolsieve.bundles.recordings import Recordings
    from poolsieve.planning.table import make_table, table_bytes

    folder = find_bundle(path_or_name)
    config = read_config(folder)
    if RECORDINGS_FILE not in config.files:
        raise ValueError(f"{folder} has no recordings; make them with: poolsieve bundles record")
    recordings = Recordings.from_bytes(read_checked(folder, config, RECORDINGS_FILE))
    plans = make_table(recordings, config.pool_sizes, config.cost, gated=config.merge == "gated")
    return add_files(folder, config, {PLANS_FILE: table_bytes(plans)})


def add_files(folder: Path, config: BundleConfig, contents: Mapping[str, bytes]) -> Bundle:
    """Add files to a bundle, or replace them; its hash changes."""
    values = config.to_json()
    files = {name: dict(vars(record)) for name, record in config.files.items()}
    for name, data in contents.items():
        write_atomically(folder / name, data)
        files[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    values["files"] = dict(sorted(files.items()))
    write_atomically(folder / CONFIG_FILE, (json.dumps(values, indent=2) + "\n").encode())
    return load_bundle(folder)


def _labelled_pixels(
    bundle: Bundle, dataset: ImageDataset, data: Path, split: str, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_]]:
    """Images as networks take them, the same as the glance does, and which are bad."""
    positions = dataset.of_split(split)
    labels = dataset.labels[positions] == 1
    rng = np.random.Generator(np.random.PCG64(seed))
    kept = [
        rng.permutation(positions[labels == kind])[:most]
        for kind, most in ((True, MOST_BAD), (False, MOST_CLEAR))
    ]
    if not len(kept[0]) or not len(kept[1]):
        raise ValueError(f"{data}: split {split!r} needs bad and clear images to record")
    chosen = np.sort(np.concatenate(kept))
    size, squaring = bundle.config.input_size, bundle.config.squaring
    shrink = 1 if bundle.config.glance is None else bundle.config.glance.shrink
    small = pixels = np.empty((len(chosen), size, size, 3), dtype=np.uint8)
    for row, position in enumerate(chosen):
        pixels[row], glanced_at = read_both_views(dataset.files[position], size, squaring, shrink)
        if small is not pixels:
            small[row] = glanced_at
        elif not np.array_equal(glanced_at, pixels[row]):  # most data sets need no second array
            small = pixels.copy()
            small[row] = glanced_at
    return pixels, small, dataset.labels[chosen] == 1
