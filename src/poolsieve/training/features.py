"""Front features of every image, computed once and kept on disk.

With the front frozen, training the backs needs only its outputs. They are stored as half-precision .npy files
that are mapped into memory, several augmented views of each training image and one plain view of the others.
A cache is named by a hash of all that its content depends on, is filled block by block, goes on where an
interrupted run stopped, and is trusted only once its completion mark is there and its size is right. Only the
process that holds the lock of a cache's folder writes to it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poolsieve.files import write_atomically
from poolsieve.images.datasets import ImageDataset
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import (
    DEFAULT_VIEWS,
    Squaring,
    ViewSettings,
    plain_view,
    random_view,
    rotated_view,
)
from poolsieve.progress import Reporter, duration
from poolsieve.training.folders import DISK_FULL, lock_folder, remove_leftovers

if TYPE_CHECKING:
    import torch

    from poolsieve.training.extractors import Extractor

FORMAT_VERSION = 2
BLOCK_IMAGES = 128
"""Images between two progress marks."""
BATCH_VIEWS = 12
"""Inputs in one pass through the front: few, so that the early wide maps stay in the processor's cache."""


@dataclass(frozen=True)
class ViewSet:
    """Which views of each image are made.

    Attributes:
        size: Side of the network's square input in pixels.
        resize_mode: How images become square.
        random_views: Augmented views beside the plain one; 0 makes the plain one only.
        settings: How augmented views are drawn.
        seed: Seed of the augmentation.
        rotation: Turn the plain view at random by up to this angle (the paper's knife test set); 0 does not.
        plain: The plain view is among them, as the first.
    """

    size: int
    resize_mode: Squaring = "pad"
    random_views: int = 0
    settings: ViewSettings = DEFAULT_VIEWS
    seed: int = 0
    rotation: float = 0.0
    plain: bool = True

    @property
    def views(self) -> int:
        """Views of each image."""
        return self.plain + self.random_views

    def to_json(self) -> dict[str, Any]:
        """All settings; `plain` only where it is unusual, so that caches from before it keep their names."""
        values = asdict(self)
        return values if not self.plain else {name: values[name] for name in values if name != "plain"}

    def render(self, file: Path, digest: str) -> NDArray[np.uint8]:
        """All views of one image, the plain one first. Shape (views, size, size, 3).

        The random state depends on the seed and the image's content alone, not on its place in the data.
        """
        image = read_image(file, at_least=self.size)  # as it is read to be judged
        rng = np.random.default_rng([self.seed, int(digest[:16], 16)])
        made = []
        if self.plain and self.rotation > 0:
            made.append(rotated_view(image, self.size, rng, self.resize_mode, self.rotation))
        elif self.plain:
            made.append(plain_view(image, self.size, self.resize_mode))
        made += [
            random_view(image, self.size, rng, self.resize_mode, self.settings)
            for _ in range(self.random_views)
        ]
        return np.stack(made)


@dataclass(frozen=True)
class FeatureCache:
    """Cached front features of one split.

    Attributes:
        path: The .npy file.
        array: Half-precision features, mapped into memory. Shape (images, views, H, W, C).
    """

    path: Path
    array: NDArray[np.float16]

    @property
    def views(self) -> int:
        """Views of each image."""
        return int(self.array.shape[1])


def build_cache(
    dataset: ImageDataset,
    split: str,
    views: ViewSet,
    extract: Extractor,
    feature_shape: tuple[int, int, int],
    network_key: dict[str, Any],
    cache_dir: Path,
    reporter: Reporter,
    earlier: NDArray[np.float16] | None = None,
) -> FeatureCache:
    """Open the cache of one split, making or completing it first if need be.

    Args:
        dataset: The images.
        split: Which split of them.
        views: Which views.
        extract: The front, or what follows the `earlier` features.
        feature_shape: (C, H, W) of the front's output.
        network_key: All that the front's output depends on: name, cut, hash of weights, preprocessing.
        cache_dir: Folder of all caches.
        reporter: Told how far it is.
        earlier: Features of the same views of the split at an earlier cut point, from which to go on rather
            than from the images.  # (images, views, H, W, C)

    Raises:
        OSError: If the disk is too small; the message names what is needed and what is free.
    """
    channels, height, width = feature_shape
    shape = (len(dataset.of_split(split)), views.views, height, width, channels)
    description = {
        "format": FORMAT_VERSION,
        "content": dataset.content_hash(split),
        "views": views.to_json(),
        "network": network_key,
        "shape": list(shape),
    }
    key = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:24]
    files = _CacheFiles(cache_dir / key, shape)
    if not files.complete():
        wait = f"features of {split}: waiting for another run that makes them in {files.folder}"
        try:
            with lock_folder(files.folder, on_wait=lambda: reporter.line(wait)):
                if not files.complete():
                    _make(files, description, dataset, split, views, extract, reporter, earlier)
                    return files.open()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            free = shutil.disk_usage(cache_dir).free
            raise OSError(
                f"the disk is full: the features of {split} need {_gigabytes(files.size)} in {files.folder}, "
                f"{_gigabytes(free)} are free now. Make room or name another place with --cache-dir, then "
                "run the same command again; what is already cached is kept"
            ) from error
    reporter.line(f"features of {split}: {shape[0]} images x {shape[1]} views from {files.array}")
    return files.open()


@dataclass(frozen=True)
class _CacheFiles:
    """The files of one cache.

    Attributes:
        folder: Its folder.
        shape: Shape of the array: (images, views, H, W, C).
    """

    folder: Path
    shape: tuple[int, ...]

    @property
    def array(self) -> Path:
        return self.folder / "features.npy"

    @property
    def progress(self) -> Path:
        return self.folder / "progress.json"

    @property
    def mark(self) -> Path:
        """Stands there once the array is complete."""
        return self.folder / "complete.json"

    @property
    def header(self) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f2", "fortran_order": False, "shape": self.shape}
        )
        return stream.getvalue()

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape[1:])) * 2

    @property
    def size(self) -> int:
        """Bytes of the complete array with its header."""
        return len(self.header) + self.shape[0] * self.row_bytes

    def complete(self) -> bool:
        return self.mark.is_file() and self.array.is_file() and self.array.stat().st_size == self.size

    def open(self) -> FeatureCache:
        return FeatureCache(self.array, np.load(self.array, mmap_mode="r"))

    def blocks_done(self) -> int:
        """Blocks that a marked progress and the file's size both vouch for."""
        try:
            blocks = int(json.loads(self.progress.read_text())["blocks"])
            with self.array.open("rb") as stream:
                if stream.read(len(self.header)) != self.header:
                    return 0
            whole = (self.array.stat().st_size - len(self.header)) // (BLOCK_IMAGES * self.row_bytes)
            return min(blocks, whole)
        except (OSError, ValueError, KeyError, TypeError):
            return 0


def _make(
    files: _CacheFiles,
    description: dict[str, Any],
    dataset: ImageDataset,
    split: str,
    views: ViewSet,
    extract: Extractor,
    reporter: Reporter,
    earlier: NDArray[np.float16] | None,
) -> None:
    """Fill a cache whose folder is locked, from the first block that is not done, and mark it complete."""
    files.mark.unlink(missing_ok=True)
    remove_leftovers(files.folder)
    done = files.blocks_done()
    row_bytes, header = files.row_bytes, files.header
    have = len(header) + done * BLOCK_IMAGES * row_bytes if done else 0
    _require_space(files.folder, files.size - have, files.size, split)
    write_atomically(files.folder / "description.json", json.dumps(description, indent=2).encode())
    positions = dataset.of_split(split)
    blocks = [slice(i, i + BLOCK_IMAGES) for i in range(0, len(positions), BLOCK_IMAGES)]

    def inputs(rows: slice) -> NDArray[Any]:
        if earlier is not None:
            return np.array(earlier[rows]).reshape(-1, *earlier.shape[2:])
        chosen = positions[rows]
        return np.concatenate([views.render(dataset.files[i], dataset.digests[i]) for i in chosen])

    name = f"features of {split} ({len(positions)} images x {views.views} views)"
    cores = len(os.sched_getaffinity(0))
    # Plain writes, not a writable memory map: a full disk is then an error and not a killed process.
    with (
        files.array.open("r+b" if done else "wb") as stream,
        # A thread per core with images of its own needs no barrier after every layer, as torch's threads do.
        ThreadPoolExecutor(max_workers=cores, initializer=_use_one_torch_thread) as workers,
        reporter.task(name, len(positions)) as task,
    ):
        if not done:
            stream.write(header)
        stream.seek(len(header) + done * BLOCK_IMAGES * row_bytes)
        stream.truncate()
        task.skip(min(done * BLOCK_IMAGES, len(positions)))
        for number, block in enumerate(blocks[done:], start=done + 1):
            for features in _features_of(block, len(positions), views.views, inputs, extract, workers):
                stream.write(features.tobytes())
                task.advance(len(features), f"{task.rate * views.views:.0f} views/s")
            stream.flush()
            os.fsync(stream.fileno())
            write_atomically(files.progress, json.dumps({"blocks": number}).encode())
        seconds = task.elapsed
    write_atomically(files.mark, json.dumps({"bytes": files.size}).encode())
    reporter.line(f"{name}: done in {duration(seconds)}")


def _features_of(
    block: slice,
    images: int,
    views: int,
    inputs: Callable[[slice], NDArray[Any]],
    extract: Extractor,
    workers: ThreadPoolExecutor,
) -> Iterator[NDArray[np.float16]]:
    """Features of a block's images, a few images at a time. Each shape (images, views, H, W, C)."""

    def features_of_few(rows: slice) -> NDArray[np.float16]:
        features = extract(inputs(rows))
        require_finite(features)
        return features.reshape(rows.stop - rows.start, views, *features.shape[1:])

    together = max(1, BATCH_VIEWS // views)
    end = min(block.stop, images)
    few = [slice(i, min(i + together, end)) for i in range(block.start, end, together)]
    yield from workers.map(features_of_few, few)


def require_finite(features: NDArray[np.float16]) -> None:
    """Raise ValueError if features did not fit into half precision."""
    if not np.isfinite(features).all():
        raise ValueError("front features exceed the range of half precision; cut the backbone elsewhere")


def _use_one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _require_space(folder: Path, missing: int, size: int, split: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < missing:
        raise OSError(
            f"the features of {split} need {_gigabytes(size)} on the disk of {folder}, "
            f"but only {_gigabytes(free)} are free. Make room, name another place with --cache-dir, "
            "or make fewer views with --views"
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e6:.2f} MB"


def hash_weights(module: torch.nn.Module) -> str:
    """A hash of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
