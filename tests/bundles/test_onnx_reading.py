import contextlib

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from poolsieve.bundles.onnx_reading import read_onnx


def graph_with(*constants, nodes=()):
    """A graph with one input and output, and these constants."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    nodes = [*nodes, helper.make_node("Identity", ["x"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "graph", [x], [y], list(constants)))


SMALL = graph_with(numpy_helper.from_array(np.ones(4, np.float32), "w")).SerializeToString()


def test_it_finds_what_the_onnx_package_finds(tiny_bundle):
    for file in tiny_bundle.config.graphs:
        model = onnx.load(tiny_bundle.path / file)
        content = read_onnx(tiny_bundle.read(file))
        for found, declared in (
            (content.inputs, model.graph.input),
            (content.outputs, model.graph.output),
        ):
            assert [tensor.name for tensor in found] == [value.name for value in declared]
            for tensor, value in zip(found, declared, strict=True):
                dimensions = value.type.tensor_type.shape.dim
                assert list(tensor.shape) == [dimension.dim_value for dimension in dimensions[1:]]
        constants = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
        constants += [
            numpy_helper.to_array(attribute.t)
            for node in model.graph.node
            for attribute in node.attribute
            if attribute.type == onnx.AttributeProto.TENSOR
        ]
        assert content.weights == sum(values.size for values in constants if values.dtype.kind == "f")
        assert content.not_finite is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_number_that_is_not_finite_is_found_wherever_it_is(dtype, value):
    bad = numpy_helper.from_array(np.array([1, value], dtype=dtype), "bad")
    inside = helper.make_node("Constant", [], ["c"], value=bad)
    assert read_onnx(graph_with(bad).SerializeToString()).not_finite == "bad"
    assert read_onnx(graph_with(nodes=[inside]).SerializeToString()).not_finite == "bad"


def test_numbers_kept_as_lists_are_looked_at_too():
    tensor = helper.make_tensor("listed", TensorProto.FLOAT, [2], [1.0, float("inf")])
    assert read_onnx(graph_with(tensor).SerializeToString()).not_finite == "listed"
    tensor = helper.make_tensor("listed", TensorProto.BFLOAT16, [2], b"\x80\x3f\x80\x7f", raw=True)
    assert read_onnx(graph_with(tensor).SerializeToString()).not_finite == "listed"
    half = helper.make_tensor("listed", TensorProto.FLOAT16, [2], [1.0, float("inf")])
    assert half.int32_data
    with pytest.raises(ValueError, match="unusual"):
        read_onnx(graph_with(half).SerializeToString())


def branching():
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "branch", [], [])
    return graph_with(nodes=[helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch)])


def looping():
    body = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "body", [], [])
    return graph_with(nodes=[helper.make_node("Loop", ["", ""], ["z"], body=body)])


def with_a_function_that_calls_itself():
    model = graph_with(nodes=[helper.make_node("again", ["x"], ["z"], domain="own")])
    own = helper.make_opsetid("own", 1)
    node = helper.make_node("again", ["a"], ["b"], domain="own")
    model.functions.append(helper.make_function("own", "again", ["a"], ["b"], [node], [own]))
    return model


def unordered():
    return graph_with(nodes=[helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["x"], ["b"])])


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (branching(), "graph inside a graph"),
        (looping(), "graph inside a graph"),
        (with_a_function_that_calls_itself(), "functions of its own"),
        (graph_with(nodes=[helper.make_node("Relu", ["a"], ["a"])]), "takes 'a', which comes from none"),
        (
            graph_with(
                nodes=[helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
            ),
            "takes 'b', which comes from none",
        ),
        (unordered(), "takes 'b', which comes from none"),
        (graph_with(nodes=[helper.make_node("Relu", ["x"], ["x"])]), "two nodes give 'x'"),
        (graph_with(nodes=[helper.make_node("Conv", ["x"], ["z"])]), "Conv takes .*, but it needs 2 inputs"),
        (graph_with(nodes=[helper.make_node("Conv", ["x", ""], ["z"])]), "Conv takes .*, but it needs 2"),
    ],
)
def test_only_layers_in_a_row_are_read(model, words):
    with pytest.raises(ValueError, match=words):
        read_onnx(model.SerializeToString())


def test_an_output_must_come_from_somewhere():
    model = graph_with()
    model.graph.node[0].output[0] = "z"
    with pytest.raises(ValueError, match="no node gives the output 'y'"):
        read_onnx(model.SerializeToString())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(ValueError):
        read_onnx(data)


@settings(max_examples=300)
@given(st.integers(0, len(SMALL) - 1), st.integers(0, 255), st.booleans())
def test_a_damaged_model_is_read_or_refused(position, byte, cut):
    data = SMALL[:position] if cut else SMALL[:position] + bytes([byte]) + SMALL[position + 1 :]
    with contextlib.suppress(ValueError):
        read_onnx(data)
