"""What a bundle's networks say of each image of a split, computed once and kept on disk.

Front features stand in one file that is mapped into memory, so that pools can be merged from it; all else
stands beside it in parts of some hundred images, each with the checksum of its features. A run that was
killed goes on after the last whole part, and a damaged part is found by its checksum and computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poolsieve.evaluation.recorded_networks import ImageRecords
from poolsieve.files import write_atomically
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import plain_view
from poolsieve.progress import Reporter
from poolsieve.training.folders import lock_folder, remove_leftovers

if TYPE_CHECKING:
    from poolsieve.engines.base import Engine

FORMAT_VERSION = 3
PART_IMAGES = 128
"""Images of a part."""
_FEATURES = "features.f32"
_DESCRIPTION = "description.json"
_OUTPUTS = ("gates", "head_logits", "logits", "vectors", "glances")


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
    try:
        with lock_folder(folder):
            remove_leftovers(folder)
            yield folder
    except BlockingIOError:
        raise ValueError(
            f"another evaluation is at work in {folder}; wait until it ends, or name another --cache-dir"
        ) from None


def cache_folder(root: Path, engine: Engine, images: LabelledImages) -> Path:
    """Where the records of these images by this engine are; its name stands for all that they depend on."""
    return root / hashlib.sha256(json.dumps(_description(engine, images)).encode()).hexdigest()[:24]


def record_images(folder: Path, engine: Engine, images: LabelledImages, reporter: Reporter) -> ImageRecords:
    """Open the records of images, making, completing or mending them first if need be.

    Args:
        folder: From `cache_folder`, held by `hold_cache`.
        engine: Runs the bundle.
        images: What to record.
        reporter: Told how far it is.

    Raises:
        ValueError: The folder holds something else, or an image cannot be read any more.
        OSError: The disk is too small.
    """
    _claim(folder, _description(engine, images))
    shape = engine.bundle.config.feature_shape
    row_bytes = 4 * int(np.prod(shape))
    file = folder / _FEATURES
    _make_room(file, row_bytes * len(images), images.name)
    starts = range(0, len(images), PART_IMAGES)
    parts: dict[int, dict[str, NDArray[np.float32]]] = {}
    with file.open("r+b") as stream:
        for start in starts:
            part = _whole_part(_part_file(folder, start), stream, start, row_bytes)
            if part is not None:
                parts[start] = part
            elif _part_file(folder, start).is_file():
                reporter.line(f"images {start} ff. of {images.name} are damaged in {folder}; computed again")
        missing = [start for start in starts if start not in parts]
        with reporter.task(f"networks on {len(images)} images of {images.name}", len(images)) as task:
            task.skip(len(images) - sum(len(range(len(images))[s : s + PART_IMAGES]) for s in missing))
            for start in missing:
                part, features = _compute(engine, images.files[start : start + PART_IMAGES])
                stream.seek(start * row_bytes)
                data = features.tobytes()
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                _save_part(_part_file(folder, start), part, zlib.crc32(data))
                parts[start] = part
                task.advance(len(features), f"{task.rate:.0f} images/s")
    mapped = np.memmap(file, dtype="<f4", mode="r", shape=(len(images), *shape))
    joined = {name: np.concatenate([parts[start][name] for start in starts]) for name in _OUTPUTS}
    return ImageRecords(np.asarray(mapped), **joined)


def _description(engine: Engine, images: LabelledImages) -> dict[str, object]:
    config = engine.bundle.config
    return {
        "format": FORMAT_VERSION,
        "bundle": engine.bundle.hash,
        "input_size": config.input_size,
        "engine": f"{engine.name} {engine.precision}",
        "images": hashlib.sha256("\n".join(images.digests).encode()).hexdigest(),
        "number": len(images),
    }


def _claim(folder: Path, description: dict[str, object]) -> None:
    file = folder / _DESCRIPTION
    if not file.is_file():
        write_atomically(file, (json.dumps(description, indent=2) + "\n").encode())
        return
    try:
        known = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); remove the folder {folder} and run again") from error
    if known != description:
        raise ValueError(f"{folder} holds records of other images or networks; name another --cache-dir")


def _make_room(file: Path, size: int, name: str) -> None:
    """Give the file its final size, if the disk has room for it."""
    have = file.stat().st_size if file.is_file() else 0
    free = shutil.disk_usage(file.parent).free
    if size - have > free:
        raise OSError(
            f"the features of {name} need {size / 1e9:.2f} GB in {file.parent}, but only {free / 1e9:.2f} GB "
            "are free; make room or name another place with --cache-dir"
        )
    if have != size:
        with file.open("ab") as stream:
            stream.truncate(size)


def _part_file(folder: Path, start: int) -> Path:
    return folder / f"part-{start:08d}.npz"


def _save_part(file: Path, part: dict[str, NDArray[np.float32]], checksum: int) -> None:
    buffer = io.BytesIO()
    arrays: dict[str, NDArray[np.generic]] = {**part, "checksum": np.array([checksum], dtype=np.uint32)}
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(file, buffer.getvalue())


def _whole_part(
    file: Path, stream: io.BufferedRandom, start: int, row_bytes: int
) -> dict[str, NDArray[np.float32]] | None:
    """A part that was written to its end and whose features are what they were; else None."""
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            part = {name: stored[name] for name in _OUTPUTS}
            checksum = int(stored["checksum"][0])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    stream.seek(start * row_bytes)
    data = stream.read(len(part["logits"]) * row_bytes)
    return part if zlib.crc32(data) == checksum else None


def _compute(
    engine: Engine, files: Iterable[Path]
) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float32]]:
    """What the networks say of some images, and their front features."""
    config = engine.bundle.config

    def view(file: Path) -> NDArray[np.uint8]:
        return plain_view(read_image(file, at_least=config.input_size), config.input_size, config.squaring)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        pixels = np.stack(list(workers.map(view, files)))
    features = engine.front(pixels).features
    head, individual = engine.head(features), engine.individual(features)
    glances = np.zeros(len(pixels), np.float32) if config.glance is None else engine.glance(pixels)
    outputs = (head.gate, head.logits, individual.logits, individual.vectors, glances)
    part = dict(zip(_OUTPUTS, outputs, strict=True))
    for name, values in {**part, "features": features}.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the bundle's networks give {name} that are not finite; train it anew")
    return part, features
