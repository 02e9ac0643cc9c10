"""Whether all engines say the same of a bundle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poolsieve.bundles import Bundle
from poolsieve.engines.engine import Engine
from poolsieve.engines.engine_checks import IMAGES, all_outputs, noise_images
from poolsieve.engines.registry import list_engines, open_engine

TOLERANCE = {"fp32": 1e-3, "fp16": 1e-3, "int8": 0.1}
"""The largest difference of logits, as a share of their size, that is put down to rounding, by how weights
are stored. In int8 a number that is rounded the other way differs by a 256th of its range, in every layer."""


@dataclass(frozen=True)
class EngineComparison:
    """Differences of engines from the first of them, on images of noise.

    Attributes:
        reference: The engine that the others are compared with.
        differences: Largest difference of any logit by engine, relative to the largest logit if above 1.
        tolerance: The largest that is put down to rounding.
    """

    reference: str
    differences: dict[str, float]
    tolerance: float

    def problems(self) -> list[str]:
        """What is wrong, if anything."""
        return [
            f"{name} and {self.reference} differ by {value:.2g}"
            for name, value in self.differences.items()
            if not value <= self.tolerance
        ]

    def __str__(self) -> str:
        if not self.differences:
            return f"runs on {self.reference}; no other engine is installed"
        parts = (f"{name} {value:.1e}" for name, value in self.differences.items())
        return f"largest difference of logits from {self.reference}: {', '.join(parts)}"


def compare_engines(bundle: Bundle, engines: list[str] | None = None) -> EngineComparison:
    """Run all networks of a bundle on the same images of noise with several engines.

    Args:
        bundle: What to run.
        engines: Names of engines; by default all that are installed, torch only if there are weights for it.
    """
    able = [name for name in list_engines() if name != "torch" or bundle.has_weights]
    names = able if engines is None else engines
    if not names:
        raise ImportError("no engine is installed; install one with: pip install openvino")
    outputs = {name: _logits(open_engine(bundle, name)) for name in names}
    reference = outputs[names[0]]
    scale = max(1.0, float(np.abs(reference).max()))
    differences = {name: float(np.abs(outputs[name] - reference).max()) / scale for name in names[1:]}
    return EngineComparison(names[0], differences, TOLERANCE[bundle.config.precision])


def _logits(engine: Engine) -> NDArray[np.float32]:
    """All logits that the networks give, in a row."""
    outputs = all_outputs(engine, noise_images(engine.bundle.config, IMAGES))
    return np.concatenate([values.ravel() for name, values in outputs.items() if "logits" in name])
