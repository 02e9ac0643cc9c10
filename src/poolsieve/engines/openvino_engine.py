"""OpenVINO: the fastest engine on a CPU, and the default."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from poolsieve.bundles.config import FRONT_GRAPH
from poolsieve.engines.engine import Batches, Engine, Run

_TOOLS = "openvino.tools.ovc"
"""OpenVINO's tools for converting models, which report their import to a server of Intel's."""


def _import_openvino() -> Any:
    """OpenVINO without its conversion tools: nobody is to be told that images are moderated here.

    `import openvino` takes the tools in if it can. A program that has imported openvino itself before has
    decided about that already.
    """
    hidden = _TOOLS not in sys.modules
    if hidden:
        sys.modules[_TOOLS] = None  # type: ignore[assignment]  # the import then goes on without them
    try:
        import openvino  # type: ignore[import-untyped]
    finally:
        if hidden:
            del sys.modules[_TOOLS]
    return openvino


ov = _import_openvino()
_LOW = {"BF16": "bf16", "FP16": "f16"}
"""Capabilities of a processor in half precision, and the hint that asks for them."""


def precision_hint(core: Any, precision: str) -> str:
    """OpenVINO's own name for a precision.

    Raises:
        ValueError: The processor does not compute in it.
    """
    if precision == "fp32":
        return "f32"
    has = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    for capability, hint in _LOW.items():
        if capability in has:
            return hint
    raise ValueError(f"this processor computes in {', '.join(has)} only, not in half precision")


class OpenVinoEngine(Engine):
    """Runs the graphs with OpenVINO on the CPU."""

    name = "openvino"

    def _open(self) -> None:
        self._core = ov.Core()
        # Several small batches side by side, one to a core, are about twice as fast as all cores on one:
        # threads need not wait for each other, and what lies between layers stays in the core's cache.
        self._settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": precision_hint(self._core, self.precision),
        }
        if self.threads is not None:
            self._settings["INFERENCE_NUM_THREADS"] = self.threads
        self._coming: dict[str, Future[Run]] = {}

    def prepare(self, files: Iterable[str]) -> None:
        """Compile graphs on a thread: OpenVINO needs no interpreter for it."""
        compiler = ThreadPoolExecutor(1, thread_name_prefix="compile-graphs")
        with self._lock:
            for file in files:
                if file not in self._graphs and file not in self._coming:
                    self._coming[file] = compiler.submit(self._compile_now, file)
        compiler.shutdown(wait=False)  # the thread ends when all are compiled

    def _compile(self, file: str) -> Run:
        coming = self._coming.pop(file, None)
        return self._compile_now(file) if coming is None else coming.result()

    def _compile_now(self, file: str) -> Run:
        model = self._core.read_model(self.bundle.read(file))
        # Where every batch is one image, saying so saves a tenth of the front's time: OpenVINO then lays out
        # the memory between layers beforehand, and small enough for the cache.
        rows = 1 if (self.batch_size or self._default_batch(file)) == 1 else -1
        shape = [rows, *self._specs[file].input.shape]
        if model.input(0).get_partial_shape() != ov.PartialShape(shape):
            model.reshape(shape)  # also to another resolution, see `poolsieve.engines.resolution`
        queue = ov.AsyncInferQueue(self._core.compile_model(model, "CPU", self._settings))
        inputs, outputs_spec = self._specs[file].input, self._specs[file].outputs
        no_input = _one_row(inputs.shape, inputs.dtype)
        no_outputs = [_one_row(output.shape, output.dtype) for output in outputs_spec]

        def run(batches: Batches, outputs: Sequence[np.ndarray]) -> None:
            computed: dict[int, np.ndarray] = {}  # inputs are not copied: they are kept while they are read
            try:
                for rows, batch in batches:
                    number = queue.get_idle_request_id()  # of the request that is started next
                    for k, output in enumerate(outputs):
                        queue[number].set_output_tensor(k, ov.Tensor(output[rows], shared_memory=True))
                    computed[number] = batch
                    queue.start_async(batch, share_inputs=True)
            finally:
                queue.wait_all()
                for request in queue:  # which would hold a chunk's pixels and features until the next chunk
                    request.set_input_tensor(no_input)
                    for k, tensor in enumerate(no_outputs):
                        request.set_output_tensor(k, tensor)

        return run

    def _default_batch(self, file: str) -> int:
        return 1 if file == FRONT_GRAPH else 4  # its maps are the largest


def _one_row(shape: Sequence[int], dtype: str) -> Any:
    """A tensor that nobody reads."""
    return ov.Tensor(np.zeros((1, *shape), dtype=dtype))
