"""What a bundle's networks say of each image of a split, computed once and kept on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.recorded_networks import ImageRecords
from poolsieve.folders import lock_folder
from poolsieve.images.small_views import read_both_views
from poolsieve.progress import Reporter
from poolsieve.row_cache import RowCache

if TYPE_CHECKING:
    from poolsieve.engines.engine import Engine


@dataclass(frozen=True)
class LabelledImages:
    """Distinct images to evaluate on.

    Attributes:
        name: What they are, such as "test", for messages.
        files: Their files.
        digests: SHA-256 of each file.
        labels: 1 for the bad ones.  # (distinct,)
    """

    name: str
    files: Sequence[Path]
    digests: Sequence[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.files)


@contextmanager
def hold_cache(folder: Path) -> Iterator[Path]:
    """Keep other evaluations out of a cache folder while the block runs.

    Raises:
        ValueError: Another process holds it.
    """
    with ExitStack() as held:
        try:
            held.enter_context(lock_folder(folder))
        except TimeoutError:
            raise ValueError(
                f"another evaluation is at work in {folder}; wait until it ends, or name another --cache-dir"
            ) from None
        yield folder


def cache_folder(root: Path, engine: Engine, images: LabelledImages) -> Path:
    """Where the records of these images by this engine are; its name stands for all that they depend on."""
    return RowCache.folder_below(root, _description(engine, images))


def record_images(folder: Path, engine: Engine, images: LabelledImages, reporter: Reporter) -> ImageRecords:
    """Open the records of images, making, completing or mending them first if need be.

    The folder is that of `cache_folder`, held by `hold_cache`.

    Raises:
        ValueError: The folder holds something else, or an image cannot be read any more.
        OSError: The disk is too small.
    """
    config = engine.bundle.config
    rows: dict[str, tuple[int, ...]] = {
        "features": config.feature_shape,
        "gates": (1 + config.tallies, *config.feature_shape[1:]),
        "head_logits": (),
        "logits": (2,),
        "vectors": (config.feature_width,),
        "glances": (),
    }
    columns = {name: np.dtype(("<f4", shape)) for name, shape in rows.items()}
    cache = RowCache(folder, _description(engine, images), len(images), columns)
    arrays = cache.fill(
        f"outputs of the networks for {len(images)} images of {images.name}",
        lambda block: [_outputs(engine, images.files[block])],
        reporter,
    )
    features = arrays.pop("features")  # stays on the disk
    return ImageRecords(features, **{name: np.array(values) for name, values in arrays.items()})


def _description(engine: Engine, images: LabelledImages) -> dict[str, object]:
    return {
        "bundle": engine.bundle.hash,
        "input_size": engine.bundle.config.input_size,
        "engine": f"{engine.name} {engine.precision}",
        "images": hashlib.sha256("\n".join(images.digests).encode()).hexdigest(),
        "number": len(images),
    }


def _outputs(engine: Engine, files: Sequence[Path]) -> dict[str, NDArray[np.float32]]:
    """What the networks say of some images, and their front features."""
    config = engine.bundle.config

    def read(file: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return read_both_views(file, config.input_size, config.resize_mode, config.small_shrink)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        pixels, small = map(np.stack, zip(*workers.map(read, files), strict=True))
    features = engine.front(small if config.shrink > 1 else pixels).features
    head, individual = engine.head(features), engine.individual(pixels if config.joined else features)
    glanced_at = features if config.joined else small
    outputs = {
        "features": features,
        "gates": head.gate,
        "head_logits": head.logits,
        "logits": individual.logits,
        "vectors": individual.vectors,
        "glances": np.zeros(len(pixels), np.float32) if config.glance is None else engine.glance(glanced_at),
    }
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the bundle's networks give {name} that are not finite; train it anew")
    return outputs
