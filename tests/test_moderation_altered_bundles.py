"""Whoever changes a bundle and signs it anew gets an error in words or whole verdicts, never a traceback.

Every alteration is drawn from a seed, and enters its own hash into `config.json` as its maker would.
"""

import json

import numpy as np
import onnx
import pytest
from made_bundles import copy_bundle, make_bundle, put, sign
from onnx import helper, numpy_helper

from poolsieve.moderation import Moderator

ROUNDS = 6
"""Seeds for each kind of alteration."""
VALUES = (0, -1, 2, 10**9, 1e308, -1e308, 1e-320, float("nan"), True, None, "", "max", [], {}, [1])
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("whole"), "tiny-gated").bundle.path


def pick(rng, options):
    return options[int(rng.integers(len(options)))]


def places(values, path=()):
    """Paths of all that a JSON value holds."""
    inside = (
        values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    )
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def alter_values(name):
    def alter(folder, rng):
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


def alter_bytes(folder, rng):
    name = pick(rng, sorted(json.loads((folder / "config.json").read_text())["files"]))
    data = np.frombuffer((folder / name).read_bytes(), dtype=np.uint8).copy()
    data[rng.integers(len(data), size=pick(rng, (1, 2, 8)))] ^= rng.integers(1, 256, dtype=np.uint8)
    put(folder / name, data.tobytes())
    sign(folder, name)


def swap_graphs(folder, rng):
    one, other = rng.choice(sorted(file.name for file in folder.glob("*.onnx")), size=2, replace=False)
    put(folder / one, (folder / other).read_bytes())
    sign(folder, one)


def of_graph(alter_graph):
    def alter(folder, rng):
        name = pick(rng, sorted(file.name for file in folder.glob("*.onnx")))
        model = onnx.load(folder / name)
        alter_graph(model.graph, pick(rng, list(model.graph.node)), rng)
        put(folder / name, model.SerializeToString())
        sign(folder, name)

    return alter


def another_operator(graph, node, rng):
    node.op_type = pick(rng, OPERATORS)


def drop_node(graph, node, rng):
    graph.node.remove(node)


def take_own_output(graph, node, rng):
    node.input[0] = node.output[0]


def rewire(graph, node, rng):
    node.input[int(rng.integers(len(node.input)))] = pick(rng, [other.output[0] for other in graph.node])


def shuffle(graph, node, rng):
    nodes = [graph.node[k] for k in rng.permutation(len(graph.node))]
    del graph.node[:]
    graph.node.extend(nodes)


def huge_weights(graph, node, rng):
    tensor = pick(rng, [tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT])
    values = np.full(list(tensor.dims), 3e38, dtype=np.float32)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def other_dimensions(graph, node, rng):
    tensor = pick(rng, [tensor for tensor in graph.initializer if tensor.dims])
    tensor.dims[int(rng.integers(len(tensor.dims)))] = pick(rng, (0, 1, -1, 2**40))


def other_type(graph, node, rng):
    pick(rng, list(graph.initializer)).data_type = pick(rng, (2, 6, 7, 9, 10, 11))


def no_numbers(graph, node, rng):
    output = graph.output[0].name
    for other in graph.node:
        other.output[:] = ["before" if name == output else name for name in other.output]
    graph.initializer.append(numpy_helper.from_array(np.float32(-1), "minus"))
    graph.node.append(helper.make_node("Sqrt", ["minus"], ["root"]))
    graph.node.append(helper.make_node("Mul", ["before", "root"], [output]))


ALTERATIONS = {
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


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("kind", ALTERATIONS)
def test_an_altered_bundle_is_an_error_in_words_or_judges(whole, tmp_path, kind, engine):
    images = list(np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8))
    refused = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        folder = copy_bundle(whole, tmp_path / str(seed))
        ALTERATIONS[kind](folder, rng)
        scheme = ("adaptive", "glance", "cascade")[seed % 3]
        try:
            judge = Moderator.load(folder, engine=engine, scheme=scheme, threads=1, seed=1)
            verdicts = list(judge.moderate(images))
        except (ValueError, OSError) as error:
            assert str(error)
            refused += 1
            continue
        assert len(verdicts) == len(images)
        for verdict in verdicts:
            assert verdict.status in ("clear", "flagged") and 0 <= verdict.score <= 1
    assert refused or kind == "calibration"  # what is altered matters to what is judged, if not each time
