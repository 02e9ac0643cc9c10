"""Photographs that come inside installed packages, and views of them: crops, some mirrored, some brighter."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from poolsieve.images.reading import read_image

FOLDERS = {
    "skimage": "data",
    "sklearn": "datasets/images",
    "matplotlib": "mpl-data/sample_data",
}
"""Where packages keep their pictures. Only files inside the wheels are used, nothing is downloaded."""
PHOTOGRAPHS = {
    "skimage": (
        "astronaut.png",
        "brick.png",
        "chelsea.png",
        "clock_motion.png",
        "coffee.png",
        "coins.png",
        "grass.png",
        "gravel.png",
        "hubble_deep_field.jpg",
        "ihc.png",
        "moon.png",
        "motorcycle_left.png",
        "page.png",
        "retina.jpg",
        "rocket.jpg",
    ),
    "sklearn": ("china.jpg", "flower.jpg"),
    "matplotlib": ("grace_hopper.jpg",),
}
SHOWN_ONCE = {"camera": ("skimage", "camera.png")}
"""Shown once and whole: a man at a camera on a tripod, whom a firearms network took for one with a weapon.
Twenty crops of it would be one mistake counted twenty times; to leave it out would be to hide it."""
_SMALLEST_CROP = 0.45
"""Share of the shorter side that a crop has at least."""


def load_photographs() -> dict[str, Image.Image]:
    """All photographs by name, in RGB.

    Raises:
        ImportError: A package is not installed; the message says how to install it.
    """
    return {
        Path(name).stem: read_image(_folder(package) / name)
        for package, names in PHOTOGRAPHS.items()
        for name in names
    }


def load_shown_once() -> dict[str, Image.Image]:
    """The photographs that are shown once, by name."""
    return {name: read_image(_folder(package) / file) for name, (package, file) in SHOWN_ONCE.items()}


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"the demo's photographs need {package}: pip install 'poolsieve[demo]'")
    return Path(spec.submodule_search_locations[0]) / FOLDERS[package]


def photograph_view(photograph: Image.Image, size: int, rng: np.random.Generator) -> Image.Image:
    """A square crop at a random place, perhaps mirrored, a little brighter or darker, `size` pixels wide."""
    shorter = min(photograph.size)
    side = int(shorter * rng.uniform(_SMALLEST_CROP, 1))
    left = int(rng.integers(0, photograph.width - side + 1))
    top = int(rng.integers(0, photograph.height - side + 1))
    view = photograph.crop((left, top, left + side, top + side)).resize(
        (size, size), Image.Resampling.LANCZOS
    )
    if rng.random() < 0.5:
        view = ImageOps.mirror(view)
    view = ImageEnhance.Brightness(view).enhance(float(rng.uniform(0.8, 1.15)))
    return ImageEnhance.Contrast(view).enhance(float(rng.uniform(0.9, 1.1)))
