"""A bundle's networks at one resolution, with what they say of the images of two splits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from poolsieve.evaluation.feature_cache import LabelledImages, cache_folder, hold_cache, record_images
from poolsieve.evaluation.ground import Ground, ReadPools, calibrate_on, read_drawn_pools
from poolsieve.evaluation.mixtures import Mixture
from poolsieve.evaluation.pool_memory import PoolMemory
from poolsieve.evaluation.recorded_networks import ImageRecords, RecordedNetworks
from poolsieve.images.datasets import ImageDataset
from poolsieve.progress import Reporter
from poolsieve.schemes import Evidence

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.engines.base import Engine

_POOLS_FILE = "pools.log"


@dataclass(frozen=True)
class Site:
    """Recorded images of one split at one resolution."""

    images: LabelledImages
    records: ImageRecords
    networks: RecordedNetworks

    def read_pools(self, sizes: Sequence[int], number: int, seed: int, gated: bool) -> dict[int, ReadPools]:
        """Read pools of known content, by their size."""
        return {
            size: read_drawn_pools(
                self.networks,
                self.images.labels,
                size,
                number,
                np.random.default_rng([seed, size]),
                gated=gated,
            )
            for size in sizes
        }


@dataclass(frozen=True)
class Resolution:
    """A bundle at one resolution with both splits."""

    bundle: Bundle
    engine: Engine
    evidence: Evidence
    tuning: Site
    measuring: Site

    def ground(self, site: Site, mixture: Mixture, seed: int) -> Ground:
        """Where schemes are tried on a mixture of one split."""
        config = self.bundle.config
        return Ground(
            site.networks,
            self.evidence,
            config.cost,
            config.pool_sizes,
            config.merge == "gated",
            mixture,
            seed,
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


def open_site(
    held: ExitStack,
    cache_dir: Path,
    engine: Engine,
    bundle: Bundle,
    images: LabelledImages,
    reporter: Reporter,
) -> Site:
    """Record what the networks say of images, or open what was recorded; `held` closes all of it."""
    folder = held.enter_context(hold_cache(cache_folder(cache_dir, engine, images)))
    named = replace(images, name=f"{images.name}, {bundle.config.input_size} px")
    records = record_images(folder, engine, named, reporter)
    memory = held.enter_context(PoolMemory(folder / _POOLS_FILE))
    return Site(images, records, RecordedNetworks(records, engine, memory))


def recalibrated(part: Resolution, pools: int, seed: int) -> Resolution:
    """The same with outputs calibrated on pools and images of the tuning split."""
    config = part.bundle.config
    read = part.tuning.read_pools(config.pool_sizes, pools, seed, config.merge == "gated")
    calibration = calibrate_on(part.tuning.records, part.tuning.images.labels, read)
    return replace(part, evidence=Evidence(calibration), bundle=replace(part.bundle, calibration=calibration))
