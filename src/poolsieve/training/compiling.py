"""Compiling the networks' steps, where the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from poolsieve.training.settings import TrainingSettings


def maybe_compiled(module: nn.Module, rows: int, settings: TrainingSettings) -> Callable[[Tensor], Tensor]:
    """The module itself, or what computes the same compiled for inputs of `rows` rows.

    Inputs of other sizes, such as the last batch of an epoch, go through the module: compiling for them too
    would take longer than it saves.
    """
    if not settings.compile:
        return module
    compiled = torch.compile(module, dynamic=False)

    def run(inputs: Tensor) -> Tensor:
        result: Tensor = compiled(inputs) if len(inputs) == rows else module(inputs)
        return result

    return run
