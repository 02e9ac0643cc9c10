"""The state of a training phase on disk: safetensors with a JSON header, no pickle, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from poolsieve.files import write_atomically
from poolsieve.networks.weights import read_safetensors

LAST = "last.safetensors"


@dataclass
class PhaseState:
    """How far a phase is.

    Attributes:
        epoch: Epochs done.
        best_epoch: The epoch (counted from 1) whose weights are the best so far; 0 before the first.
        best_score: Its score.
        history: One record of figures per epoch.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_score: float = float("-inf")
    history: list[dict[str, float]] = field(default_factory=list)


def save_checkpoint(
    folder: Path,
    state: PhaseState,
    module: nn.Module,
    average: nn.Module | None,
    optimizer: torch.optim.Optimizer,
) -> None:
    """Write the state after an epoch; if that epoch is the best so far, its weights too.

    The best weights are written first and named by their epoch, so the state never names a file that is not
    there; a file left by a run that died in between is overwritten with the same content.
    """
    if state.best_epoch == state.epoch:
        judged = module if average is None else average
        write_atomically(folder / _best_name(state.epoch), save(_tensors(judged, "")))
    tensors = _tensors(module, "module.")
    if average is not None:
        tensors |= _tensors(average, "average.")
    for number, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if value is not None:
                tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value).clone(
                    memory_format=torch.contiguous_format
                )
    write_atomically(folder / LAST, save(tensors, metadata={"state": json.dumps(asdict(state))}))
    for file in folder.glob("best-*.safetensors"):
        if file.name != _best_name(state.best_epoch):
            file.unlink()


def load_checkpoint(
    folder: Path, module: nn.Module, average: nn.Module | None, optimizer: torch.optim.Optimizer
) -> PhaseState:
    """Bring module, average and optimizer to the last state saved; a fresh state if there is none.

    Raises:
        ValueError: The checkpoint is damaged.
    """
    file = folder / LAST
    if not file.is_file():
        return PhaseState()
    try:
        return _restore(file, module, average, optimizer)
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        raise ValueError(f"{_damaged(file)}: {error}") from error


def _restore(
    file: Path, module: nn.Module, average: nn.Module | None, optimizer: torch.optim.Optimizer
) -> PhaseState:
    tensors, metadata = read_safetensors(file)
    state = PhaseState(**json.loads(metadata["state"]))
    module.load_state_dict(_with_prefix(tensors, "module."))
    if average is not None:
        average.load_state_dict(_with_prefix(tensors, "average."))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    values: dict[int, dict[str, Any]] = {}
    for name, tensor in _with_prefix(tensors, "optimizer.").items():
        number, key = name.split(".", 1)
        if tensor.ndim:  # in the memory layout of its parameter, as the optimizer had made it
            tensor = torch.empty_like(parameters[int(number)]).copy_(tensor)
        values.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": values, "param_groups": optimizer.state_dict()["param_groups"]})
    return state


def load_best(folder: Path, state: PhaseState) -> dict[str, Tensor]:
    """The weights of the best epoch, as a state dict."""
    file = folder / _best_name(state.best_epoch)
    try:
        return read_safetensors(file)[0]
    except (ValueError, FileNotFoundError) as error:
        raise ValueError(f"{_damaged(file)}: {error}") from error


def _damaged(file: Path) -> str:
    return (
        f"{file} is missing or damaged; remove the folder {file.parent} and those of later networks beside "
        "it, and the same command trains them anew"
    )


def _best_name(epoch: int) -> str:
    return f"best-{epoch:04d}.safetensors"


def _tensors(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    # Copies, because safetensors refuses tensors that share memory, as networks with one gate do.
    return {
        prefix + name: value.detach().clone(memory_format=torch.contiguous_format)
        for name, value in module.state_dict().items()
    }


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
