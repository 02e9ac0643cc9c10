"""Random weights and inputs that are the same on every processor, as torch's own draws are not.

Networks come alive by construction: the weights into a unit have sum 0, so that it is neither always on nor
always off, and the scale that keeps the variance of what comes out of rectified units from layer to layer.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from poolsieve.networks import Gate, SplitBackbone, load_backbone

Module = TypeVar("Module", bound=torch.nn.Module)
_GAIN = 2 * math.pi / (math.pi - 1)
"""One over the share of its input's variance that a rectified unit gives on."""


def drawn(*shape: int, seed: int = 0, low: float | None = None) -> torch.Tensor:
    """Normal numbers, or with `low` uniform ones from there to 1, as a tensor."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) if low is None else rng.uniform(low, 1, size=shape)
    return torch.from_numpy(values.astype(np.float32))


@torch.no_grad()
def draw_weights(module: Module, *, seed: int = 0, scale: float = 1.0) -> Module:
    """Draw all weights of a module anew; norms do nothing and biases are 0. Gives the module back."""
    rng = np.random.default_rng(seed)
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.ndim >= 2:
                parameter.copy_(torch.from_numpy(_weights(rng, tuple(parameter.shape), scale)))
            elif parameter.ndim == 1:
                is_norm = isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
                parameter.fill_(1.0 if is_norm and name == "weight" else 0.0)
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.reset_running_stats()
    return module


def _weights(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> NDArray[np.float32]:
    inputs = math.prod(shape[1:])
    values = rng.normal(size=(shape[0], inputs))
    if inputs > 1:
        values -= values.mean(axis=1, keepdims=True)
    return (scale * math.sqrt(_GAIN / inputs) * values).reshape(shape).astype(np.float32)


def drawn_backbone(name: str, input_size: int) -> SplitBackbone:
    """A backbone by name that tells images of noise apart; trained weights may fall silent on them."""
    backbone = draw_weights(load_backbone(name, pretrained=False, input_size=input_size))
    return settled(backbone, drawn(32, 3, input_size, input_size, seed=1))


@torch.no_grad()
def drawn_gate(features: torch.Tensor, **options: Any) -> Gate:
    """A gate that is neither open nor shut for all of the features."""
    gate = settled(draw_weights(Gate(features.shape[1], **options)), features)
    gate.judge.bias.sub_(gate(features)[1].mean())
    return gate


@torch.no_grad()
def settled(module: Module, inputs: torch.Tensor) -> Module:
    """The module in evaluation mode, its norms set by these inputs, so that every layer is alive."""
    norms = [part for part in module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0  # as if there had been nothing before
    module.train()(inputs)
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    return module.eval()
