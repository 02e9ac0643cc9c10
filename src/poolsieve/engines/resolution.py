"""The networks of a bundle on images of another size.

All layers up to the final one work on maps of any size, so that a bundle can look at smaller images for less
(the paper's Downsample). Its weights were trained at their own size and its calibration holds there:
calibrate anew on validation images before outputs are believed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from poolsieve.bundles import Bundle, MultiplyAdds
from poolsieve.bundles.config import FRONT_GRAPH, HEAD_GRAPH, INDIVIDUAL_GRAPH


def at_resolution(bundle: Bundle, input_size: int) -> Bundle:
    """The same bundle for images of another size, with its shapes and multiply-adds.

    Only the engines openvino and torch run it. The calibration is still that of the old size.

    Args:
        bundle: Any bundle.
        input_size: Height and width of images in pixels.

    Raises:
        ImportError: OpenVINO, which knows the shapes of all layers, is not installed.
        ValueError: The networks do not work at that size.
    """
    try:
        import openvino as ov  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("another resolution needs openvino: pip install 'poolsieve[moderate]'") from None

    core, config = ov.Core(), bundle.config
    if config.shrink > 1:
        raise ValueError(f"the networks of {bundle.name} look at smaller images already")
    front = core.read_model(bundle.read(FRONT_GRAPH))
    before = {FRONT_GRAPH: _multiply_adds(front)}
    try:
        front.reshape([-1, input_size, input_size, 3])
        shape = tuple(int(part.get_length()) for part in list(front.output(0).get_partial_shape())[1:])
        after = {FRONT_GRAPH: _multiply_adds(front)}
        for file in (HEAD_GRAPH, INDIVIDUAL_GRAPH):
            graph = core.read_model(bundle.read(file))
            before[file] = _multiply_adds(graph)
            graph.reshape([-1, *shape])
            after[file] = _multiply_adds(graph)
    except RuntimeError as error:
        raise ValueError(f"the networks of {bundle.name} do not work at {input_size} px: {error}") from error
    # Shares and not numbers, as the bundle may count more kinds of layers than are counted here.
    share = {file: after[file] / before[file] for file in before}
    cost = config.cost
    back_and_final = (cost.back + cost.final) * share[INDIVIDUAL_GRAPH]
    smaller = MultiplyAdds(
        front=round(cost.front * share[FRONT_GRAPH]),
        back=round(back_and_final) - cost.final,
        final=cost.final,
        gate=round(cost.gate * share[HEAD_GRAPH]),
        pooled=round(cost.pooled * share[INDIVIDUAL_GRAPH]),
    )
    channels, height, width = shape
    changed = replace(
        config,
        input_size=input_size,
        feature_shape=(channels, height, width),
        cost=smaller,
        glance=None,  # was trained for images shrunken from the old size
    )
    return replace(bundle, config=changed)


def _multiply_adds(graph: Any) -> int:
    """Multiply-adds of a graph's convolutions and linear layers for one row."""
    total = 0
    for layer in graph.get_ops():
        kind = layer.get_type_name()
        if kind not in ("Convolution", "GroupConvolution", "MatMul"):
            continue
        weights = [int(part.get_length()) for part in layer.input(1).get_partial_shape()]
        places = [int(part.get_length()) for part in list(layer.output(0).get_partial_shape())[2:]]
        total += math.prod(weights) * math.prod(places)
    return total
