"""Scenes with a drawn firearm: on a table, a wall, the ground or paper, seen by a slightly noisy camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from scipy import ndimage

from drawn_firearms.outlines import FINISHES, KINDS
from drawn_firearms.photographs import photograph_view

Ground = Literal["paper", "table", "brick", "gravel", "grass"]
_SHADOW_OFFSET, _SHADOW_BLUR, _SHADOW_DEPTH = 0.018, 0.012, 0.55
"""Of the shadow beneath a firearm: shares of the picture's width, and how dark it is."""
_NOISE = 3.0


@dataclass(frozen=True)
class Scene:
    """What is to be seen.

    Attributes:
        kind: One of `KINDS`.
        finish: One of `FINISHES`.
        ground: What the firearm lies on or hangs before.
        turn: Rotation in degrees, against the clock.
        length: Length of the firearm as a share of the picture's width.
        mirrored: Muzzle to the right.
    """

    kind: str
    finish: str
    ground: Ground
    turn: float = 0.0
    length: float = 0.85
    mirrored: bool = False


SCENES = (
    Scene("pistol", "blued", "table", 8, 0.80),
    Scene("compact-pistol", "black", "paper", -6, 0.78, True),
    Scene("revolver", "bright", "table", 12, 0.80, True),
    Scene("assault-rifle", "army", "paper", 6, 0.95),
    Scene("carbine", "black", "gravel", -9, 0.95, True),
    Scene("shotgun", "blued", "brick", 14, 0.96),
    Scene("hunting-rifle", "blued", "grass", -12, 0.96),
    Scene("submachine-gun", "black", "table", 5, 0.92, True),
)
"""The drawn firearms of the demo."""


def render(
    scene: Scene, size: int, photographs: dict[str, Image.Image], rng: np.random.Generator
) -> Image.Image:
    """A square picture of a scene."""
    canvas = KINDS[scene.kind](rng, FINISHES[scene.finish])
    layers = np.dstack([canvas.colour, canvas.alpha])
    firearm = Image.fromarray((255 * layers).round().astype(np.uint8), "RGBA")
    box = firearm.getchannel("A").getbbox()
    firearm = firearm.crop(box)
    if scene.mirrored:
        firearm = firearm.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    width = int(scene.length * size)
    firearm = firearm.resize((width, int(width * firearm.height / firearm.width)), Image.Resampling.LANCZOS)
    firearm = _leaned(firearm, float(rng.uniform(0.88, 1)))
    firearm = firearm.rotate(scene.turn, Image.Resampling.BICUBIC, expand=True)
    layer = Image.new("RGBA", (size, size))
    layer.paste(firearm, ((size - firearm.width) // 2, (size - firearm.height) // 2))
    pixels = np.asarray(layer, dtype=np.float32) / 255
    ground = _ground(scene.ground, size, photographs, rng)
    alpha = pixels[..., 3]
    shadow = ndimage.shift(alpha, (_SHADOW_OFFSET * size, 0.7 * _SHADOW_OFFSET * size), order=1)
    shadow = ndimage.gaussian_filter(shadow, _SHADOW_BLUR * size)
    seen = ground * (1 - _SHADOW_DEPTH * shadow)[..., None]
    seen = pixels[..., :3] * alpha[..., None] + seen * (1 - alpha)[..., None]
    return _photographed(seen, rng)


def _leaned(picture: Image.Image, far: float) -> Image.Image:
    """As seen a little from the side: the right end is smaller."""
    width, height = picture.size
    cut = (1 - far) * height / 2
    corners = ((0, 0), (0, height), (width, height - cut), (width, cut))
    coefficients = _perspective(corners, ((0, 0), (0, height), (width, height), (width, 0)))
    return picture.transform(
        picture.size, Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BICUBIC
    )


def _perspective(
    seen: tuple[tuple[float, float], ...], flat: tuple[tuple[float, float], ...]
) -> tuple[float, ...]:
    """Coefficients that take four corners of the picture to be made to those of the flat one."""
    rows, values = [], []
    for (x, y), (u, v) in zip(seen, flat, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return tuple(float(value) for value in np.linalg.solve(np.array(rows), np.array(values)))


def _ground(
    kind: Ground, size: int, photographs: dict[str, Image.Image], rng: np.random.Generator
) -> NDArray[np.float32]:
    """What lies behind, as values from 0 to 1.  # (size, size, 3)."""
    if kind == "paper":
        light = np.linspace(0.96, 0.86, size, dtype=np.float32)[:, None, None]
        return np.broadcast_to(light, (size, size, 3)).copy()
    if kind == "table":
        return _boards(size, rng)
    view = photograph_view(photographs[kind], size, rng).filter(ImageFilter.GaussianBlur(1.2))
    pixels = np.asarray(view, dtype=np.float32) / 255
    tints = {"brick": (0.85, 0.62, 0.52), "gravel": (0.85, 0.80, 0.74), "grass": (0.62, 0.78, 0.45)}
    lit = np.asarray(tints[kind]) * (0.25 + 0.75 * pixels)
    return lit.astype(np.float32)


def _boards(size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """A table of wooden boards."""
    grain = ndimage.gaussian_filter(rng.standard_normal((size, size)), (1.0, size / 14))
    rings = ndimage.gaussian_filter(rng.standard_normal((size, size)), (size / 60, size / 5))
    tone = 0.07 * grain / grain.std() + 0.08 * rings / rings.std()
    boards = np.arange(size) * 4 // size
    tone += rng.uniform(-0.06, 0.06, 4)[boards][:, None]
    gap = np.abs((np.arange(size) * 4 / size + 0.5) % 1 - 0.5) * size / 4 < 1.2
    tone[gap] -= 0.3
    colour = np.array([0.62, 0.44, 0.28], dtype=np.float32)
    return np.clip(colour * (1 + tone[..., None]), 0, 1).astype(np.float32)


def _photographed(picture: NDArray[np.float32], rng: np.random.Generator) -> Image.Image:
    """Light that falls off towards the corners, a lens that is not quite sharp, and noise."""
    size = len(picture)
    place = np.linspace(-1, 1, size)
    fall = 1 - 0.22 * (place[:, None] ** 2 + place[None, :] ** 2) / 2
    seen = ndimage.gaussian_filter(255 * picture * fall[..., None], (0.7, 0.7, 0))
    seen = seen + _NOISE * rng.standard_normal(seen.shape)
    return Image.fromarray(np.clip(seen, 0, 255).round().astype(np.uint8))
