"""torch: runs the networks as they were trained, from `model.safetensors`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from torch import Tensor

from poolsieve.bundles import Bundle
from poolsieve.bundles.config import (
    FRONT_GRAPH,
    GLANCE_GRAPH,
    HEAD_GRAPH,
    INDIVIDUAL_GRAPH,
    WEIGHTS_FILE,
    pooled_graph,
)
from poolsieve.engines.engine import Engine, Run, one_by_one
from poolsieve.networks import IndividualNetwork, PooledNetwork, load_backbone
from poolsieve.networks.trained import TrainedModel


class TorchEngine(Engine):
    """Runs the networks with torch on the CPU."""

    name = "torch"

    def _open(self) -> None:
        self._model = bundle_model(self.bundle)
        for part in self._model.parts().values():
            part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _compile(self, file: str) -> Run:
        def compute(batch: np.ndarray) -> Sequence[np.ndarray]:
            low = self.precision == "low"
            own = batch if batch.flags.writeable else batch.copy()  # torch has no read-only tensors
            with (
                _threads(self.threads),
                torch.inference_mode(),
                torch.autocast("cpu", torch.bfloat16, enabled=low),
            ):
                outputs = self._forward(file, torch.from_numpy(own))
            return [output.float().numpy() for output in outputs]

        return one_by_one(compute)

    def _forward(self, file: str, batch: Tensor) -> tuple[Tensor, ...]:
        model = self._model
        if file in (FRONT_GRAPH, GLANCE_GRAPH):
            network = model.backbone.front if file == FRONT_GRAPH else model.glance
            assert network is not None
            return (network(model.backbone.preprocessing(batch.permute(0, 3, 1, 2).float())),)
        batch = batch.contiguous(memory_format=torch.channels_last)
        if file == HEAD_GRAPH:
            gate, logits = model.gate(batch)
            return gate, logits
        networks: dict[str, IndividualNetwork | PooledNetwork] = {INDIVIDUAL_GRAPH: model.individual}
        networks |= {pooled_graph(size): network for size, network in model.own_counting.items()}
        chosen = networks[file]
        if not isinstance(chosen, PooledNetwork):
            vectors = chosen.embed(batch)
            return chosen.final(vectors), vectors
        merged = batch.shape[1] - self.bundle.config.tallies
        vectors = chosen.back(batch[:, :merged])
        return chosen.read(vectors, batch[:, merged:]), vectors


def bundle_model(bundle: Bundle) -> TrainedModel:
    """The networks of a bundle as torch modules in evaluation mode, to run or to go on training with.

    Raises:
        ValueError: The backbone is none that poolsieve can build, or the weights do not fit it.
    """
    config = bundle.config
    if not bundle.has_weights:
        raise ValueError(
            f"the bundle {bundle.name} comes without {WEIGHTS_FILE}, which torch needs; openvino and "
            "onnxruntime run its graphs"
        )
    try:
        backbone = load_backbone(
            config.backbone,
            cut=config.cut,
            pretrained=False,
            input_size=config.input_size,
            shrink=config.shrink,
        )
    except ValueError as error:
        raise ValueError(
            f"torch cannot rebuild the bundle {bundle.name}: {error}; use another engine"
        ) from error
    model = TrainedModel.new(
        backbone,
        config.pool_sizes,
        merge=config.merge,
        again=config.again,
        gate_width=config.gate_width,
        tallies=config.tallies > 0,
        counting=config.counting,
        glance=None if config.glance is None else vars(config.glance),
    )
    tensors = load_tensors(bundle.read(WEIGHTS_FILE))
    try:
        model.load_weights(tensors)
    except RuntimeError as error:
        raise ValueError(f"{bundle.path / WEIGHTS_FILE} does not fit {config.backbone}: {error}") from error
    for part in model.parts().values():
        part.requires_grad_(False)
    return model


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Compute on so many threads; torch knows one number for the whole process, so it is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
