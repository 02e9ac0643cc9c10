"""OpenVINO: the fastest engine on a CPU, and the default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov  # type: ignore[import-untyped]

from poolsieve.bundles import Bundle
from poolsieve.engines.base import Engine, Precision, Run

_LOW = {"BF16": "bf16", "FP16": "f16"}
"""Capabilities of a processor in half precision, and the hint that asks for them."""


class OpenVinoEngine(Engine):
    """Runs the graphs with OpenVINO on the CPU."""

    name = "openvino"

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        precision: Precision = "fp32",
        batch_size: int | None = None,
    ) -> None:
        super().__init__(bundle, threads=threads, precision=precision, batch_size=batch_size)
        self._core = ov.Core()
        # Batches go one after the other, so all threads work on one; streams side by side would need several
        # batches at once and as many copies of what lies between layers.
        self._settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32" if precision == "fp32" else self._low_precision(),
        }
        if threads is not None:
            self._settings["INFERENCE_NUM_THREADS"] = threads

    def _low_precision(self) -> str:
        has = self._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        for capability, hint in _LOW.items():
            if capability in has:
                return hint
        raise ValueError(
            f"this processor computes in {', '.join(has)} only, not in half precision; use precision='fp32'"
        )

    def _compile(self, file: str) -> Run:
        model = self._core.read_model(self.bundle.read(file))
        request = self._core.compile_model(model, "CPU", self._settings).create_infer_request()

        def run(batch: np.ndarray) -> Sequence[np.ndarray]:
            results = request.infer(batch, share_inputs=True, share_outputs=True)
            return [results[k] for k in range(len(results))]

        return run
