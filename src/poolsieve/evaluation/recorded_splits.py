"""A bundle's networks at one resolution, with what they say of the images of two splits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles.recordings import Recordings
from poolsieve.evaluation.context import EvaluationContext
from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, hold_cache, record_images
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.evaluation.pool_cache import PoolCache
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.export.known_pools import ReadPools, calibrate_on, read_drawn_pools
from poolsieve.images.datasets import ImageDataset
from poolsieve.outliers import OutlierReadings
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.engine import Engine

_POOLS_FILE = "pools.db"


@dataclass(frozen=True)
class RecordedSplit:
    """Recorded images of one split at one resolution.

    Attributes:
        images: The images.
        records: What the networks themselves say of them.
        networks: The same, as it is read; they also read pools.
    """

    images: LabelledImages
    records: ImageRecords
    networks: RecordedNetworks

    @property
    def logits(self) -> NDArray[np.float32]:
        """Outputs (ordinary, bad) of the individual network, as they are read.  # (distinct, 2)."""
        return self.networks.individual(np.arange(len(self.images))).logits

    def read_pools(self, sizes: Sequence[int], number: int, seed: int, gated: bool) -> dict[int, ReadPools]:
        """Read pools of known content, by their size."""
        numbers: NDArray[Any] = np.arange(len(self.images))  # recorded networks know images by their numbers
        gate = numbers if gated else None
        return {
            size: read_drawn_pools(self.networks, numbers, gate, self.images.labels, size, number, seed)
            for size in sizes
        }


@dataclass(frozen=True)
class Resolution:
    """A bundle at one resolution with both splits.

    Attributes:
        bundle: The bundle.
        engine: Gives the networks' own outputs, also of an outlier bundle.
        likelihoods: What outputs are worth.
        tuning: The split to tune on; None if there is none.
        measuring: The split to measure on.
        recordings: What the bundle's plans are made of, if it has any and is run as it is.
    """

    bundle: Bundle
    engine: Engine
    likelihoods: LikelihoodModel
    tuning: RecordedSplit | None
    measuring: RecordedSplit
    recordings: Recordings | None = None

    @cached_property
    def reading_engine(self) -> Engine:
        """Gives outputs as they are read, as moderation does."""
        from poolsieve.engines import open_engine

        if self.bundle.outliers is None:
            return self.engine
        return open_engine(self.bundle, self.engine.name, threads=self.engine.threads)

    def context(self, recorded: RecordedSplit | None, mixture: Mixture, seed: int) -> EvaluationContext:
        """Where schemes are run on a mixture of one split, or set up if there are no images of it."""
        config = self.bundle.config
        return EvaluationContext(
            None if recorded is None else recorded.networks,
            self.likelihoods,
            config.cost,
            config.pool_sizes,
            config.merge == "gated",
            mixture,
            seed,
            self.recordings,
        )


def images_of(dataset: ImageDataset, split: str) -> LabelledImages:
    """The images of a split."""
    positions = dataset.of_split(split)
    return LabelledImages(
        split,
        [dataset.files[i] for i in positions],
        [dataset.digests[i] for i in positions],
        dataset.labels[positions],
    )


def open_split(
    held: ExitStack,
    cache_dir: Path,
    engine: Engine,
    bundle: Bundle,
    images: LabelledImages,
    reporter: Reporter,
) -> RecordedSplit:
    """Record what the networks say of images, or open what was recorded; `held` closes all of it."""
    folder = held.enter_context(hold_cache(cache_folder(cache_dir, engine, images)))
    named = replace(images, name=f"{images.name}, {bundle.config.input_size} px")
    records = record_images(folder, engine, named, reporter)
    cache = held.enter_context(PoolCache(folder / _POOLS_FILE))
    return RecordedSplit(images, records, RecordedNetworks(records, engine, cache, outliers=bundle.outliers))


def recalibrated(
    part: Resolution, pools: int, seed: int, outliers: OutlierReadings | None = None
) -> Resolution:
    """The same with outputs calibrated on pools and images of the tuning split, which must be there.

    Args:
        part: What to calibrate.
        pools: Pools to calibrate on.
        seed: Draws them.
        outliers: Read outputs by these densities from now on.
    """
    assert part.tuning is not None
    if outliers is not None:
        tuning, measuring = (
            replace(recorded, networks=recorded.networks.read_by(outliers))
            for recorded in (part.tuning, part.measuring)
        )
        part = replace(part, tuning=tuning, measuring=measuring)
    config, recorded = part.bundle.config, part.tuning
    assert recorded is not None
    calibration = calibrate_on(
        recorded.logits,
        recorded.records.head_logits,
        recorded.images.labels,
        recorded.read_pools(config.pool_sizes, pools, seed, config.merge == "gated"),
        by_density=outliers is not None and outliers.individual.by_density,
    )
    known = part.bundle.calibration
    if config.glance is not None:
        calibration = replace(calibration, glance=known.glance, glance_roc=known.glance_roc)
    bundle = replace(part.bundle, calibration=calibration, outliers=outliers)
    return replace(part, likelihoods=LikelihoodModel(calibration), bundle=bundle)
