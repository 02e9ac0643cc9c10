"""Frozen parts of a network as functions on arrays, as fast as this machine allows.

OpenVINO runs a front about four times as fast as torch does. A network that it cannot run, or runs to another
result, stays with torch.
"""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from poolsieve.engines.openvino_engine import ov
from poolsieve.networks import Preprocessing

Extractor = Callable[[NDArray[Any]], NDArray[np.float16]]
"""From pixels (n, S, S, 3), or features at an earlier cut point, to front features (n, H, W, C)."""

_ROWS = 2
"""Inputs in one pass of OpenVINO: few, so that the early wide maps stay in the processor's cache."""
_AGREE = 1e-2
"""Largest difference of OpenVINO's features from torch's, as a share of the largest feature."""


def front_extractor(front: nn.Module, preprocessing: Preprocessing, input_size: int) -> Extractor:
    """A frozen front as a function from pixels to half-precision features in channels-last order.

    Args:
        front: Images (n, 3, S, S) to features (n, C, H, W).
        preprocessing: How pixels become its input.
        input_size: Side S of the images.
    """
    return _extractor(_ChannelsLast(front, preprocessing), (input_size, input_size, 3), np.uint8)


def tail_extractor(tail: nn.Module, shape: tuple[int, ...]) -> Extractor:
    """Frozen last layers of a front, from earlier features of shape (C, H, W) to its own, channels last."""
    channels, height, width = shape
    return _extractor(_ChannelsLast(tail, None), (height, width, channels), np.float16)


def require_finite(features: NDArray[np.float16]) -> None:
    """Raise ValueError if features did not fit into half precision."""
    if not np.isfinite(features).all():
        raise ValueError("front features exceed the range of half precision; cut the backbone elsewhere")


class _ChannelsLast(nn.Module):
    """Pixels as they are read, or half-precision features, to features, all with channels last."""

    def __init__(self, part: nn.Module, preprocessing: Preprocessing | None) -> None:
        super().__init__()
        self.part, self.preprocessing = copy.deepcopy(part), preprocessing

    def forward(self, rows: Tensor) -> Tensor:
        inputs = rows.permute(0, 3, 1, 2).float()
        features: Tensor = self.part(inputs if self.preprocessing is None else self.preprocessing(inputs))
        return features.permute(0, 2, 3, 1)


def _extractor(module: nn.Module, row: tuple[int, int, int], kind: type[np.generic]) -> Extractor:
    module = module.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def by_torch(inputs: NDArray[Any]) -> NDArray[np.float16]:
        with torch.inference_mode():
            features: NDArray[np.float16] = module(torch.from_numpy(inputs)).contiguous().half().numpy()
        return features

    traced, probe = np.random.default_rng(0).integers(256, size=(2, _ROWS, *row)).astype(kind)
    if kind != np.uint8:
        traced, probe = traced / kind(64), probe / kind(64)
    try:
        fast = _openvino_extractor(module, traced)
        given, expected = fast(probe).astype(np.float32), by_torch(probe).astype(np.float32)
    except RuntimeError:  # an operator that ONNX or OpenVINO does not know
        return by_torch
    agrees = np.abs(given - expected).max() <= _AGREE * np.abs(expected).max()
    return fast if agrees else by_torch


def _openvino_extractor(module: nn.Module, example: NDArray[Any]) -> Extractor:
    """The module run by OpenVINO, a stream for each thread that calls it.

    Raises:
        RuntimeError: It cannot be exported or compiled.
    """
    stream = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracing exporter is on its way out; see export/graphs.py
        torch.onnx.export(
            module,
            (torch.from_numpy(example),),
            stream,  # type: ignore[arg-type]  # a stream is fine where the graph is traced
            dynamo=False,
            input_names=["inputs"],
            output_names=["features"],
            dynamic_axes={"inputs": {0: "N"}, "features": {0: "N"}},
        )
    core = ov.Core()
    settings = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(stream.getvalue()), "CPU", settings)
    own = threading.local()

    def extract(inputs: NDArray[Any]) -> NDArray[np.float16]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        parts = [
            own.request.infer(inputs[begin : begin + _ROWS], share_inputs=True)[0].astype(np.float16)
            for begin in range(0, len(inputs), _ROWS)
        ]
        return np.concatenate(parts)

    return extract
