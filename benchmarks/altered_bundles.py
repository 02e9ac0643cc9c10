"""Bundles that somebody changed, by accident or on purpose.

Every alteration is drawn from a generator, and enters its own hash into `config.json` as its maker would.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

Alteration = Callable[[Path, np.random.Generator], None]
GraphAlteration = Callable[[onnx.GraphProto, onnx.NodeProto, np.random.Generator], None]
Option = TypeVar("Option")
VALUES: tuple[Any, ...] = (
    0,
    -1,
    2,
    10**9,
    1e308,
    -1e308,
    1e-320,
    float("nan"),
    True,
    None,
    "",
    "max",
    [],
    {},
    [1],
)
OPERATORS = (
    "Relu",
    "Log",
    "Sqrt",
    "Exp",
    "Add",
    "Div",
    "Softmax",
    "Conv",
    "Reshape",
    "Transpose",
    "Loop",
    "If",
)


def copy_bundle(source: Path, target: Path) -> Path:
    """A copy whose files are links; `put` replaces one without touching the original."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def put(file: Path, content: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    put(file, json.dumps({**json.loads(file.read_text()), **changes}).encode())


def sign(folder: Path, *names: str) -> None:
    """Enter the hashes of changed files, as someone would who made a wrong bundle on purpose."""
    files = json.loads((folder / "config.json").read_text())["files"]
    for name in names:
        content = (folder / name).read_bytes()
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    change_config(folder, files=files)


def pick(rng: np.random.Generator, options: Sequence[Option]) -> Option:
    return options[int(rng.integers(len(options)))]


def places(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all that a JSON value holds."""
    inside = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def alter_values(name: str) -> Alteration:
    def alter(folder: Path, rng: np.random.Generator) -> None:
        values = json.loads((folder / name).read_text())
        *path, last = pick(rng, list(places(values)))
        at = values
        for key in path:
            at = at[key]
        if rng.random() < 0.2:
            del at[last]
        else:
            at[last] = pick(rng, VALUES)
        put(folder / name, json.dumps(values).encode())
        if name != "config.json":
            sign(folder, name)

    return alter


def damage_bytes(folder: Path, rng: np.random.Generator) -> str:
    """Change some bytes of a file that has a hash, and leave the hash as it is; gives the file's name."""
    name = pick(rng, sorted(json.loads((folder / "config.json").read_text())["files"]))
    data = np.frombuffer((folder / name).read_bytes(), dtype=np.uint8).copy()
    data[rng.integers(len(data), size=pick(rng, (1, 2, 8)))] ^= rng.integers(1, 256, dtype=np.uint8)
    put(folder / name, data.tobytes())
    return name


def alter_bytes(folder: Path, rng: np.random.Generator) -> None:
    sign(folder, damage_bytes(folder, rng))


def swap_graphs(folder: Path, rng: np.random.Generator) -> None:
    one, other = rng.choice(sorted(file.name for file in folder.glob("*.onnx")), size=2, replace=False)
    put(folder / one, (folder / other).read_bytes())
    sign(folder, one)


def of_graph(alter_graph: GraphAlteration) -> Alteration:
    def alter(folder: Path, rng: np.random.Generator) -> None:
        name = pick(rng, sorted(file.name for file in folder.glob("*.onnx")))
        model = onnx.load(folder / name)
        alter_graph(model.graph, pick(rng, list(model.graph.node)), rng)
        put(folder / name, model.SerializeToString())
        sign(folder, name)

    return alter


def another_operator(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    node.op_type = pick(rng, OPERATORS)


def drop_node(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    graph.node.remove(node)


def take_own_output(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    node.input[0] = node.output[0]


def rewire(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    node.input[int(rng.integers(len(node.input)))] = pick(rng, [other.output[0] for other in graph.node])


def shuffle(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    nodes = [graph.node[k] for k in rng.permutation(len(graph.node))]
    del graph.node[:]
    graph.node.extend(nodes)


def huge_weights(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    tensor = pick(rng, [tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT])
    values = np.full(list(tensor.dims), 3e38, dtype=np.float32)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def other_dimensions(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    tensor = pick(rng, [tensor for tensor in graph.initializer if tensor.dims])
    tensor.dims[int(rng.integers(len(tensor.dims)))] = pick(rng, (0, 1, -1, 2**40))


def other_type(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    pick(rng, list(graph.initializer)).data_type = pick(rng, (2, 6, 7, 9, 10, 11))


def no_numbers(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    output = graph.output[0].name
    for other in graph.node:
        other.output[:] = ["before" if name == output else name for name in other.output]
    graph.initializer.append(numpy_helper.from_array(np.asarray(-1, np.float32), "minus"))
    graph.node.append(helper.make_node("Sqrt", ["minus"], ["root"]))
    graph.node.append(helper.make_node("Mul", ["before", "root"], [output]))


ALTERATIONS: dict[str, Alteration] = {
    "config": alter_values("config.json"),
    "calibration": alter_values("calibration.json"),
    "bytes": alter_bytes,
    "swap": swap_graphs,
} | {
    change.__name__: of_graph(change)
    for change in (
        another_operator,
        drop_node,
        take_own_output,
        rewire,
        shuffle,
        huge_weights,
        other_dimensions,
        other_type,
        no_numbers,
    )
}
