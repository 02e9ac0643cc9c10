"""Test images enlarged to photographs, with the grain that cameras add, and photographs as they are found."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

GRAIN = 4.0
"""Standard deviation of what is added to every pixel, so that files are as large as photographs are: 290 kB
for two megapixels as JPEG."""
PACKAGES = ("matplotlib", "skimage", "sklearn")
OPTIONS = {"jpeg": {"quality": 85}, "png": {"compress_level": 6}, "webp": {"quality": 80}}


@dataclass(frozen=True)
class Photographs:
    """Files of one kind.

    Attributes:
        name: Format and megapixels.
        files: In a random order, the same every time.
        bad: Which of them are bad.  # (n,)
    """

    name: str
    files: tuple[str, ...]
    bad: tuple[bool, ...]

    @property
    def kilobytes(self) -> float:
        """Of a file."""
        return sum(Path(file).stat().st_size for file in self.files) / len(self.files) / 1000


def enlarge(task: Path, folder: Path, megapixels: float, ending: str, *, bad: int, clear: int) -> Photographs:
    """Images of a task's test split as 4:3 photographs; those that the folder holds already are kept.

    Args:
        task: CSV with the columns file, label and split.
        folder: Where to put them.
        megapixels: Size of each.
        ending: "jpeg", "png" or "webp".
        bad: How many bad ones.
        clear: How many others.
    """
    with task.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["split"] == "test"]
    chosen = [
        (task.parent / row["file"], label == "1")
        for label, most in (("1", bad), ("0", clear))
        for row in [row for row in rows if row["label"] == label][:most]
    ]
    name = f"{ending}-{megapixels:g}"
    (folder / name).mkdir(parents=True, exist_ok=True)
    height = round(math.sqrt(megapixels * 1e6 * 3 / 4))
    files = []
    for source, _ in chosen:
        file = folder / name / f"{source.stem}.{ending}"
        if not file.exists():
            _write(source, file, (round(height * 4 / 3), height))
        files.append(str(file))
    order = np.random.default_rng(0).permutation(len(files))
    return Photographs(name, tuple(files[k] for k in order), tuple(chosen[k][1] for k in order))


def _write(source: Path, file: Path, size: tuple[int, int]) -> None:
    with Image.open(source) as image:
        large = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BICUBIC), dtype=np.int16)
    rng = np.random.default_rng(sum(source.name.encode()))
    grain = rng.normal(0, GRAIN, (*large.shape[:2], 1)).astype(np.int16)
    photograph = Image.fromarray(np.clip(large + grain, 0, 255).astype(np.uint8))
    temporary = file.with_suffix(".part")  # a run that is stopped leaves no half file
    photograph.save(temporary, file.suffix[1:], **OPTIONS[file.suffix[1:]])
    temporary.rename(file)


def natural_photographs(folder: Path) -> Photographs:
    """Files in the folders firearm and ordinary, as they were found."""
    files = [(file, kind == "firearm") for kind in ("firearm", "ordinary") for file in _files(folder / kind)]
    return Photographs("natural", tuple(str(file) for file, _ in files), tuple(bad for _, bad in files))


def package_photographs() -> Photographs:
    """JPEGs that come with Python packages; none is bad."""
    homes = [Path(str(spec.origin)).parent for spec in map(find_spec, PACKAGES) if spec is not None]
    found = [file for home in homes for file in sorted(home.glob("**/*.jpg"))]
    files = [file for file in found if min(Image.open(file).size) > 224]
    return Photographs("packages", tuple(map(str, files)), (False,) * len(files))


def _files(folder: Path) -> Sequence[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())
