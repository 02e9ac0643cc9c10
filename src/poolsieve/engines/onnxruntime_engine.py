"""ONNX Runtime on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime  # type: ignore[import-untyped]

from poolsieve.engines.engine import Engine, Run, one_by_one


class OnnxRuntimeEngine(Engine):
    """Runs the graphs with ONNX Runtime."""

    name = "onnxruntime"

    def _open(self) -> None:
        if self.precision != "fp32":
            raise ValueError("onnxruntime computes in fp32 on a CPU; use precision='fp32' or another engine")

    def _compile(self, file: str) -> Run:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # warnings speak of how the graph was simplified
        if self.threads is not None:
            options.intra_op_num_threads = self.threads
        session = onnxruntime.InferenceSession(
            self.bundle.read(file), options, providers=["CPUExecutionProvider"]
        )
        spec = self._specs[file]
        if tuple(session.get_inputs()[0].shape[1:]) != spec.input.shape:
            raise ValueError("onnxruntime runs a bundle at its own resolution only; use the engine openvino")
        names = [output.name for output in spec.outputs]

        def compute(batch: np.ndarray) -> Sequence[np.ndarray]:
            return session.run(names, {spec.input.name: batch})

        return one_by_one(compute)
