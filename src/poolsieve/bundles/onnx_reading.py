"""Reading what an ONNX file holds without running it.

A bundle is checked before any engine sees its graphs, also where the package `onnx` is not installed (it is
needed for exporting only). An ONNX file is a protobuf message, whose encoding is simple enough to be walked
here: https://protobuf.dev/programming-guides/encoding; the field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from poolsieve.bundles.graph_specs import TensorSpec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _UINT8, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 2, 10, 11, 16
_TYPE_NAMES = {_FLOAT: "float32", _UINT8: "uint8", _FLOAT16: "float16", _DOUBLE: "float64"}
_RAW = {_FLOAT: "<f4", _DOUBLE: "<f8", _FLOAT16: "<f2", _BFLOAT16: "<u2"}
"""How the numbers of a type lie in `raw_data`; numpy has no bfloat16."""
_LISTED = {4: "<f4", 10: "<f8"}
"""How they lie in `float_data` and `double_data`."""
_LEAST_INPUTS = {
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm", "MatMul", "PRelu"), 2),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Gather", "Expand"), 2),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), 2),
    **{"Where": 3, "BatchNormalization": 5},
}
"""Inputs that operators cannot do without, in every version of ONNX; OpenVINO dies of some that lack one."""


@dataclass(frozen=True)
class OnnxContent:
    """What was found in an ONNX file.

    Attributes:
        inputs: The graph's inputs; a free first dimension is left out of the shape.
        outputs: Its outputs likewise.
        weights: Number of constant numbers in it.
        not_finite: Name of the first constant that holds a NaN or an infinity; None if all are finite.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights: int
    not_finite: str | None


def read_onnx(data: bytes) -> OnnxContent:
    """Find inputs, outputs and constants of an ONNX model.

    Raises:
        ValueError: The bytes are not an ONNX model, its weights lie in another file, or it is not a plain
            sequence of layers, each of which takes what comes from those before it.
    """
    model = list(_fields(memoryview(data)))
    graphs = [value for field, value in model if field == 7]
    if len(graphs) != 1:
        raise ValueError("not an ONNX model")
    if any(field == 25 for field, _ in model):
        raise ValueError("has functions of its own, which a bundle never does")
    graph = _message(graphs[0])
    tensors = [_tensor(part) for part in _tensors(graph)]
    inputs = tuple(_value_info(_message(value)) for field, value in _fields(graph) if field == 11)
    outputs = tuple(_value_info(_message(value)) for field, value in _fields(graph) if field == 12)
    _check_order(graph, {tensor.name for tensor in inputs} | {name for name, _, _ in tensors}, outputs)
    return OnnxContent(
        inputs=inputs,
        outputs=outputs,
        weights=sum(size for _, size, _ in tensors),
        not_finite=next((name for name, _, finite in tensors if not finite), None),
    )


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers and values of a message's fields, in order."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, position = _varint(data, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("not an ONNX model: unknown encoding")
        if position + length > end:
            raise ValueError("not an ONNX model, or cut short")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("not an ONNX model, or cut short")


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("not an ONNX model: a number where a message belongs")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_message(value)).decode("utf-8", "replace")


def _tensors(graph: memoryview) -> Iterator[memoryview]:
    """All constants of a graph: initialisers, and those in attributes of nodes."""
    for field, value in _fields(graph):
        if field == 5:
            yield _message(value)
        elif field == 15:
            raise ValueError("holds sparse weights, which a bundle never does")
        elif field == 1:
            for part, attribute in _fields(_message(value)):
                if part == 5:
                    yield from _attribute_tensors(_message(attribute))


def _attribute_tensors(attribute: memoryview) -> Iterator[memoryview]:
    for field, value in _fields(attribute):
        if field in (5, 10):
            yield _message(value)
        elif field in (6, 11):
            raise ValueError("holds a graph inside a graph, as loops and branches do; a bundle never does")


def _check_order(graph: memoryview, known: set[str], outputs: Sequence[TensorSpec]) -> None:
    """Refuse a graph in which a node takes too little, or what does not come before it, as in every cycle."""
    known = {"", *known}  # an input that is left out has no name
    for field, value in _fields(graph):
        if field != 1:
            continue
        parts = list(_fields(_message(value)))
        inputs = [_text(part) for number, part in parts if number == 1]
        operator = next((_text(part) for number, part in parts if number == 4), "")
        least = _LEAST_INPUTS.get(operator, 0)
        if sum(map(bool, inputs[:least])) < least:
            raise ValueError(f"a node of kind {operator} takes {inputs}, but it needs {least} inputs")
        for name in inputs:
            if name not in known:
                raise ValueError(
                    f"a node takes {name!r}, which comes from none before it: the graph is cyclic or torn"
                )
        for name in (_text(part) for number, part in parts if number == 2):
            if name and name in known:
                raise ValueError(f"two nodes give {name!r}")
            known.add(name)
    for output in outputs:
        if output.name not in known:
            raise ValueError(f"no node gives the output {output.name!r}")


def _tensor(tensor: memoryview) -> tuple[str, int, bool]:
    """Name, size, and whether all numbers are finite."""
    kind, name, listed, parts = 0, "", False, []
    for field, value in _fields(tensor):
        if field == 2 and isinstance(value, int):
            kind = value
        elif field == 8:
            name = _text(value)
        elif field == 13 or (field == 14 and value != 0):
            raise ValueError("keeps weights in another file, which a bundle never does")
        elif field in (4, 9, 10):
            parts.append((field, value if isinstance(value, memoryview) else memoryview(b"")))
        elif field == 5:
            listed = True
    if listed and kind in (_FLOAT16, _BFLOAT16):
        raise ValueError("keeps half-precision weights in an unusual way; export the bundle anew")
    size, finite = 0, True
    for field, raw in parts:
        stored = _LISTED.get(field) or _RAW.get(kind)
        if stored is None:
            continue  # whole numbers
        if len(raw) % np.dtype(stored).itemsize:
            raise ValueError(f"constant {name!r} is cut short")
        numbers = np.frombuffer(raw, dtype=stored)
        if stored == "<u2":  # bfloat16 is the upper half of a float32
            numbers = (numbers.astype("<u4") << 16).view("<f4")
        size += numbers.size
        finite = finite and bool(np.isfinite(numbers).all())
    return name, size, finite


def _value_info(info: memoryview) -> TensorSpec:
    name, kind, shape = "", 0, []
    for field, value in _fields(info):
        if field == 1:
            name = _text(value)
        elif field == 2:
            for of_type, tensor_type in _fields(_message(value)):
                if of_type != 1:
                    continue
                for part, content in _fields(_message(tensor_type)):
                    if part == 1 and isinstance(content, int):
                        kind = content
                    elif part == 2:
                        shape = [_dimension(_message(d)) for f, d in _fields(_message(content)) if f == 1]
    if not shape or shape[0] is not None or None in shape[1:]:
        raise ValueError(
            f"{name!r} must have a free number of rows, and only that free; its shape is {shape}"
        )
    return TensorSpec(name, _TYPE_NAMES.get(kind, f"type {kind}"), tuple(d for d in shape if d is not None))


def _dimension(dimension: memoryview) -> int | None:
    for field, value in _fields(dimension):
        if field == 1 and isinstance(value, int):
            return value
    return None
