"""Turning flat outlines into lit objects: a bevel for height, a material for light, wear and grain.

A part is a mask. Its height rises from the edge inwards (flat plates have a narrow bevel, barrels are round),
the height's slope gives normals, and the material says how light comes back from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.float32]

_KEY_LIGHT = np.array([-0.42, -0.70, 0.58], dtype=np.float32)
_HALFWAY = (_KEY_LIGHT + np.array([0, 0, 1], dtype=np.float32)) / 1.778
_SHADE_REACH = 7.0
"""How far, in pixels, a part darkens what lies beneath it."""


@dataclass(frozen=True)
class Material:
    """How a surface looks.

    Attributes:
        colour: Of the body, RGB from 0 to 1.
        gloss: Strength of the highlight.
        sharpness: How narrow the highlight is.
        mirror: How much of the room (bright above, dark below) the surface mirrors.
        grain: Strength of the texture.
        stretch: Length of the texture along and across the part, in pixels.
        wear: How bright edges are rubbed.
    """

    colour: tuple[float, float, float]
    gloss: float = 0.3
    sharpness: float = 20.0
    mirror: float = 0.1
    grain: float = 0.03
    stretch: tuple[float, float] = (1.0, 1.0)
    wear: float = 0.0


BLUED_STEEL = Material((0.11, 0.115, 0.13), 0.75, 26, 0.34, 0.05, (14, 0.7), 0.16)
BLACK_STEEL = Material((0.075, 0.075, 0.08), 0.45, 18, 0.20, 0.06, (3, 1), 0.12)
BRIGHT_STEEL = Material((0.50, 0.50, 0.51), 0.85, 22, 0.55, 0.06, (18, 0.7), 0.10)
POLYMER = Material((0.065, 0.065, 0.07), 0.22, 9, 0.06, 0.10, (1.2, 1.2), 0.0)
OLIVE = Material((0.24, 0.235, 0.16), 0.18, 9, 0.06, 0.08, (1.2, 1.2), 0.0)
WALNUT = Material((0.34, 0.17, 0.075), 0.40, 24, 0.10, 0.30, (46, 2.2), 0.0)
BEECH = Material((0.55, 0.30, 0.12), 0.50, 26, 0.12, 0.22, (52, 2.6), 0.0)
RUBBER = Material((0.045, 0.045, 0.045), 0.10, 6, 0.03, 0.14, (1.6, 1.6), 0.0)
HOLLOW = Material((0.015, 0.015, 0.015), 0.02, 5, 0.0, 0.02)
GLASS = Material((0.10, 0.10, 0.16), 1.0, 40, 0.7, 0.01)
BRASS = Material((0.62, 0.45, 0.16), 0.8, 22, 0.45, 0.03)


class Canvas:
    """A picture with transparency that parts are laid on, one over the other.

    Args:
        width: In pixels.
        height: In pixels.
        rng: Grain differs from canvas to canvas.
    """

    def __init__(self, width: int, height: int, rng: np.random.Generator) -> None:
        self.colour: Floats = np.zeros((height, width, 3), dtype=np.float32)
        self.alpha: Floats = np.zeros((height, width), dtype=np.float32)
        self._rng = rng

    def lay(self, mask: NDArray[np.bool_], material: Material, bevel: float, angle: float = 0.0) -> None:
        """Lay a part on top.

        Args:
            mask: Where it is.  # (height, width)
            material: What it is made of.
            bevel: Width of its rounded edge in pixels; beyond half its width it is round all over.
            angle: Direction of its grain in degrees.
        """
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if not len(rows):
            raise ValueError("the part lies outside the canvas")
        reach = int(3 * _SHADE_REACH)
        window = (
            slice(max(rows[0] - reach, 0), rows[-1] + reach + 1),
            slice(max(columns[0] - reach, 0), columns[-1] + reach + 1),
        )
        part = mask[window]
        beneath = ndimage.gaussian_filter(part.astype(np.float32), _SHADE_REACH)
        self.colour[window] *= (1 - 0.75 * ndimage.shift(beneath, (3, 2), order=0))[..., None]
        lit = _lit(part, material, bevel, _texture(part.shape, material.stretch, angle, self._rng))
        self.colour[window][part] = lit[part]
        self.alpha[window][part] = 1.0


def _lit(part: NDArray[np.bool_], material: Material, bevel: float, texture: Floats) -> Floats:
    """Colour of every pixel of a part.  # (height, width, 3)."""
    depth = ndimage.distance_transform_edt(np.pad(part, 1))[1:-1, 1:-1].astype(np.float32)
    radius = max(min(bevel, float(depth.max())), 1.0)
    rise = np.clip(depth / radius, 0, 1)
    height = radius * np.sqrt(1 - (1 - rise) ** 2)
    height = ndimage.gaussian_filter(height, max(radius / 7, 0.8))
    slope_y, slope_x = np.gradient(height)
    normals = np.stack([-slope_x, -slope_y, np.full_like(height, 0.9)], axis=-1)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    diffuse = np.clip(normals @ _KEY_LIGHT, 0, None)
    highlight = material.gloss * np.clip(normals @ _HALFWAY, 0, 1) ** material.sharpness
    # What a surface mirrors depends on its tilt: a bright ceiling, a dark band at eye height, a pale table.
    upward = -normals[..., 1]
    room = 0.75 * np.clip(upward * 1.6, 0, 1) + 0.30 * np.clip(-upward * 1.4 - 0.35, 0, 1) + 0.16
    body = np.asarray(material.colour, dtype=np.float32) * (0.34 + 0.85 * diffuse)[..., None]
    body = body * (1 + material.grain * texture)[..., None]
    rubbed = material.wear * np.exp(-(((depth - 1.5) / 1.6) ** 2)) * np.clip(1 + texture, 0, 2)
    lit = body + (0.55 * highlight + material.mirror * room * 0.6 + rubbed)[..., None]
    return np.clip(lit, 0, 1).astype(np.float32)


def _texture(
    shape: tuple[int, ...], stretch: tuple[float, float], angle: float, rng: np.random.Generator
) -> Floats:
    """Noise of mean 0 and deviation 1, drawn out along a direction."""
    rows, columns = shape[0], shape[1]
    side = int(np.hypot(rows, columns)) + 4
    noise = ndimage.gaussian_filter(rng.standard_normal((side, side)), (stretch[1], stretch[0]))
    if angle:
        noise = ndimage.rotate(noise, angle, reshape=False, order=1, mode="wrap")
    top, left = (side - rows) // 2, (side - columns) // 2
    cut = noise[top : top + rows, left : left + columns]
    return ((cut - cut.mean()) / max(float(cut.std()), 1e-6)).astype(np.float32)
