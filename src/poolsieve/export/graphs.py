"""From trained networks to the ONNX graphs and the weight file of a bundle; needs torch and onnx."""

from __future__ import annotations

import copy
import io
import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save
from torch import Tensor, nn

from poolsieve.bundles.config import (
    FRONT_GRAPH,
    GLANCE_GRAPH,
    HEAD_GRAPH,
    INDIVIDUAL_GRAPH,
    BundleConfig,
    WeightPrecision,
    pooled_graph,
)
from poolsieve.bundles.graph_specs import GraphSpec, TensorSpec, graph_specs
from poolsieve.networks import PooledNetwork, Preprocessing
from poolsieve.networks.trained import TrainedModel
from poolsieve.networks.weights import copied_tensors

OPSET = 18
"""Version of the ONNX operators in the graphs, known to every engine."""
_EXAMPLE_ROWS = 2


def with_stored_precision(model: TrainedModel, precision: WeightPrecision) -> TrainedModel:
    """A copy in evaluation mode whose weights are what the bundle can store.

    With "fp16" the weights of convolutions and linear layers are rounded to half precision, while biases and
    normalisation stay: they are few, and a variance may leave the range of half precision. All engines
    start from the rounded numbers, so that they still agree.
    """
    model = copy.deepcopy(model)
    for part in model.parts().values():
        part.eval()
        if precision == "fp16":
            _round_weights(part)
    return model


def _round_weights(part: nn.Module) -> None:
    for name, parameter in part.named_parameters():
        if parameter.ndim >= 2:
            rounded = parameter.detach().half()
            if not rounded.isfinite().all():
                raise ValueError(f"weights {name} leave the range of half precision; use fp32")
            parameter.data = rounded.float()


def weight_file(model: TrainedModel, precision: WeightPrecision) -> bytes:
    """The content of `model.safetensors`, with the names that a training run uses."""
    tensors = copied_tensors({f"{prefix}.": part for prefix, part in model.parts().items()})
    for name, value in tensors.items():
        if precision == "fp16" and value.is_floating_point() and value.ndim >= 2:
            tensors[name] = value.half()
    return bytes(save(tensors))


def export_graphs(model: TrainedModel, config: BundleConfig, precision: WeightPrecision) -> dict[str, bytes]:
    """All graphs of a bundle by file.

    Args:
        model: From `with_stored_precision`.
        config: Says which shapes the graphs must have; its files are not looked at.
        precision: How to store weights.
    """
    modules: dict[str, nn.Module] = {
        FRONT_GRAPH: _Front(model.backbone.front, model.backbone.preprocessing),
        HEAD_GRAPH: model.gate,
        INDIVIDUAL_GRAPH: _Back(model.individual.back, model.individual.final),
    }
    for size, network in model.own_counting.items():
        back = _Back(network.back, network.final) if network.tally is None else _TalliedBack(network)
        modules[pooled_graph(size)] = back
    if model.glance is not None:
        modules[GLANCE_GRAPH] = _Front(model.glance, model.backbone.preprocessing)
    specs = graph_specs(config)
    return {file: _export(modules[file].eval(), specs[file], precision) for file in specs}


class _Front(nn.Module):
    """Pixels as they are read to what the front, or the glance, makes of them."""

    mean: Tensor
    scale: Tensor

    def __init__(self, front: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.front = front
        self.register_buffer("mean", torch.tensor(preprocessing.mean)[:, None, None])
        self.register_buffer("scale", torch.tensor(preprocessing.scale)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.permute(0, 3, 1, 2).to(torch.float32)
        features: Tensor = self.front((pixels - self.mean) / self.scale)
        return features


class _Back(nn.Module):
    """Features to logits and to the vector before the final layer."""

    def __init__(self, back: nn.Module, final: nn.Module) -> None:
        super().__init__()
        self.back, self.final = back, final

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self.back(features)
        return self.final(vectors), vectors


class _TalliedBack(nn.Module):
    """Merged features, and below them sums of tallies, to logits and to the vector before the final layer."""

    def __init__(self, network: PooledNetwork) -> None:
        super().__init__()
        self.network = network
        self.tallies = 0 if network.gate is None else network.gate.tallies

    def forward(self, merged: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self.network.back(merged[:, : -self.tallies])
        return self.network.read(vectors, merged[:, -self.tallies :]), vectors


def _export(module: nn.Module, spec: GraphSpec, precision: WeightPrecision) -> bytes:
    example = torch.zeros(_EXAMPLE_ROWS, *spec.input.shape, dtype=getattr(torch, spec.input.dtype))
    names = [output.name for output in spec.outputs]
    stream = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # The tracing exporter is on its way out, but torch is pinned; the newer one takes ten times as long
        # and merges normalisation into weights, which could then not be stored in the precision of
        # model.safetensors. What tracing could get wrong, a fixed batch, the tests of the engines would show.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (example,),
            stream,  # type: ignore[arg-type]  # a stream is fine where the graph is traced
            dynamo=False,
            opset_version=OPSET,
            do_constant_folding=False,
            input_names=[spec.input.name],
            output_names=names,
            dynamic_axes={name: {0: "N"} for name in (spec.input.name, *names)},
        )
    graph = onnx.load_model_from_string(stream.getvalue())
    _declare(graph, spec)
    if precision == "fp16":
        _halve(graph)
    onnx.checker.check_model(graph, full_check=True)
    return bytes(graph.SerializeToString(deterministic=True))


def _declare(model: onnx.ModelProto, spec: GraphSpec) -> None:
    """Write the shapes that are known here and that tracing cannot always work out."""
    graph = model.graph
    del graph.input[:], graph.output[:], graph.value_info[:]
    graph.input.append(_declaration(spec.input))
    graph.output.extend(_declaration(output) for output in spec.outputs)


def _declaration(tensor: TensorSpec) -> onnx.ValueInfoProto:
    kind = TensorProto.UINT8 if tensor.dtype == "uint8" else TensorProto.FLOAT
    return helper.make_tensor_value_info(tensor.name, kind, ["N", *tensor.shape])


def _halve(model: onnx.ModelProto) -> None:
    """Store weights as float16, each followed by a cast; engines undo it when they compile the graph."""
    graph, casts = model.graph, []
    for k, tensor in enumerate(graph.initializer):
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2:
            continue
        values = numpy_helper.to_array(tensor)
        halved = values.astype(np.float16)
        if not np.array_equal(halved, values):
            continue  # not one of the rounded weights, such as the mean of the pixels
        name = f"{tensor.name}.fp16"
        casts.append(helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT))
        graph.initializer[k].CopyFrom(numpy_helper.from_array(halved, name))
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([*casts, *nodes])
