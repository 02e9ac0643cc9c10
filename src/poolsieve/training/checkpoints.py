"""The state of a training phase on disk: safetensors with a JSON header, no pickle, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from poolsieve.files import write_atomically
from poolsieve.networks.weights import copied_tensors, read_safetensors, with_prefix


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


@dataclass(frozen=True)
class Checkpoints:
    """What is trained in a phase, and where its state is kept.

    Attributes:
        folder: Folder of the phase.
        module: What is trained.
        average: The moving average of its weights, which is judged and kept; None keeps the weights.
        optimizer: What moves the weights.
    """

    folder: Path
    module: nn.Module
    average: nn.Module | None
    optimizer: torch.optim.Optimizer

    @property
    def judged(self) -> nn.Module:
        """What is judged and kept."""
        return self.module if self.average is None else self.average

    def save(self, state: PhaseState) -> None:
        """Write the state after an epoch; if that epoch is the best so far, its weights too.

        The best weights are written first and named by their epoch, so the state never names a file that is
        not there; a file left by a run that died in between is overwritten with the same content.
        """
        best = self._best_file(state)
        if state.best_epoch == state.epoch:
            write_atomically(best, save(copied_tensors({"": self.judged})))
        parts = {"module.": self.module}
        tensors = copied_tensors(parts if self.average is None else {**parts, "average.": self.average})
        for number, values in self.optimizer.state_dict()["state"].items():
            for name, value in values.items():
                if value is not None:
                    tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value).clone(
                        memory_format=torch.contiguous_format
                    )
        write_atomically(self._last_file, save(tensors, metadata={"state": json.dumps(asdict(state))}))
        for file in self.folder.glob("best-*.safetensors"):
            if file != best:
                file.unlink()

    def load(self) -> PhaseState:
        """Bring module, average and optimizer to the last state saved; a fresh state if there is none.

        Raises:
            ValueError: The checkpoint is damaged.
        """
        if not self._last_file.is_file():
            return PhaseState()
        try:
            return self._restored()
        except (ValueError, TypeError, LookupError, RuntimeError) as error:
            raise _damaged(self._last_file, error) from error

    def load_best(self, state: PhaseState) -> None:
        """Give the module the weights of the best epoch."""
        file = self._best_file(state)
        try:
            tensors, _ = read_safetensors(file)
        except (ValueError, FileNotFoundError) as error:
            raise _damaged(file, error) from error
        self.module.load_state_dict(tensors)

    def _restored(self) -> PhaseState:
        tensors, metadata = read_safetensors(self._last_file)
        state = PhaseState(**json.loads(metadata["state"]))
        self.module.load_state_dict(with_prefix(tensors, "module."))
        if self.average is not None:
            self.average.load_state_dict(with_prefix(tensors, "average."))
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        values: dict[int, dict[str, Any]] = {}
        for name, tensor in with_prefix(tensors, "optimizer.").items():
            number, key = name.split(".", 1)
            if tensor.ndim:  # in the memory layout of its parameter, as the optimizer had made it
                tensor = torch.empty_like(parameters[int(number)]).copy_(tensor)
            values.setdefault(int(number), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": values})
        return state

    @property
    def _last_file(self) -> Path:
        return self.folder / "last.safetensors"

    def _best_file(self, state: PhaseState) -> Path:
        return self.folder / f"best-{state.best_epoch:04d}.safetensors"


def _damaged(file: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{file} is missing or damaged; remove the folder {file.parent} and those of later networks beside "
        f"it, and the same command trains them anew: {error}"
    )
