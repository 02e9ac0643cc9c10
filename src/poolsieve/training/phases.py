"""The loop that trains one network: epochs, checkpoints, selection.

Randomness is set anew at the start of every epoch from (seed, phase, epoch), so a run that is killed and
started again repeats the unfinished epoch and ends with the same weights.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from poolsieve.progress import Reporter, duration
from poolsieve.training.checkpoints import Checkpoints, PhaseState
from poolsieve.training.sampling import epoch_generator
from poolsieve.training.settings import Optimization, TrainingSettings

WARM_UP = 0.2
"""Share of the steps in which a one-cycle schedule rises."""


@dataclass(frozen=True)
class Step:
    """What one batch gave.

    Attributes:
        loss: To be minimised.
        correct: Right answers among `seen`.
        seen: Images or pools judged.
    """

    loss: Tensor
    correct: int
    seen: int


class Learner(Protocol):
    """A network that can be trained by `run_phase`."""

    name: str
    module: nn.Module
    epochs: int

    def new_layers(self) -> Sequence[nn.Module]:
        """The parts that start from random weights, and so learn at the full rate."""

    def steps(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch, as descriptions that `load` understands."""

    def load(self, batch: Any) -> Any:
        """The tensors of a batch; called ahead, on another thread."""

    def loss(self, loaded: Any) -> Step:
        """Loss of a batch; the module is in training mode."""

    def judge(self, module: nn.Module) -> dict[str, float]:
        """Figures on validation data; "score" selects the best epoch."""


def run_phase(
    learner: Learner,
    settings: TrainingSettings,
    folder: Path,
    reporter: Reporter,
    on_epoch: Callable[[PhaseState], None],
) -> PhaseState:
    """Train to the end, from the last checkpoint if there is one; leaves the module with its best weights.

    Of epochs with equal scores the first is the best.

    Args:
        learner: What is trained.
        settings: How, and with which seed.
        folder: Where the checkpoints of this phase are.
        reporter: Told how far it is.
        on_epoch: Called after each epoch, once its checkpoint is saved.
    """
    module = learner.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average = copy.deepcopy(module).requires_grad_(False) if settings.optimization.averaging else None
    optimizer = make_optimizer(module, learner.new_layers(), settings.optimization)
    kept = Checkpoints(folder, module, average, optimizer)
    state = kept.load()
    if 0 < state.epoch < learner.epochs:
        reporter.line(f"{learner.name}: going on after epoch {state.epoch} of {learner.epochs}")
    elif state.epoch:
        reporter.line(
            f"{learner.name}: trained already, epoch {state.best_epoch} of {state.epoch} was the best"
        )
    while state.epoch < learner.epochs:
        begin = time.monotonic()
        shares = state.epoch / learner.epochs, (state.epoch + 1) / learner.epochs
        with reporter.part(learner.name, *shares):
            figures = _run_epoch(learner, kept, settings, state.epoch, reporter)
            trained = time.monotonic()
            kept.judged.eval()
            with torch.inference_mode():
                figures |= learner.judge(kept.judged)
            reporter.count(0.0, time.monotonic() - trained)
        state.epoch += 1
        figures["seconds"] = round(time.monotonic() - begin, 1)
        state.history.append({"epoch": state.epoch, **figures})
        if figures["score"] > state.best_score:
            state.best_epoch, state.best_score = state.epoch, figures["score"]
        kept.save(state)
        on_epoch(state)
        reporter.line(_epoch_line(learner, state, figures) + reporter.left_in_all())
    kept.load_best(state)
    module.eval()
    return state


def _run_epoch(
    learner: Learner, kept: Checkpoints, settings: TrainingSettings, epoch: int, reporter: Reporter
) -> dict[str, float]:
    dropout = epoch_generator(settings.seed, f"{learner.name} dropout", epoch)
    torch.manual_seed(int(dropout.integers(2**31)))
    batches = learner.steps(epoch)
    kept.module.train()
    loss_sum, correct, seen = 0.0, 0, 0
    with reporter.task(f"{learner.name}, epoch {epoch + 1}/{learner.epochs}", len(batches)) as task:
        for position, loaded in enumerate(_loaded_ahead(batches, learner.load), epoch * len(batches)):
            rate = learning_rate(position, learner.epochs * len(batches), settings.optimization)
            for group in kept.optimizer.param_groups:
                group["lr"] = rate * group["share"]
            step = learner.loss(loaded)
            kept.optimizer.zero_grad(set_to_none=True)
            step.loss.backward()
            kept.optimizer.step()
            if kept.average is not None:
                decay = min(settings.optimization.averaging, (1 + position) / (10 + position))
                _average(kept.average, kept.module, decay)
            value = float(step.loss.detach())
            if not math.isfinite(value):
                raise ValueError(
                    f"the loss of {learner.name} is {value} in epoch {epoch + 1}; "
                    f"train with a learning rate below {settings.optimization.learning_rate}"
                )
            loss_sum += value * step.seen
            correct, seen = correct + step.correct, seen + step.seen
            task.advance(1, f"loss {loss_sum / seen:.3f}, accuracy {correct / seen:.3f}")
    return {"loss": loss_sum / seen, "accuracy": correct / seen}


def learning_rate(step: int, steps: int, optimization: Optimization) -> float:
    """The rate of a step: constant, or one cycle of a cosine up and a cosine down."""
    if optimization.schedule == "constant":
        return optimization.learning_rate
    rise = max(1, round(WARM_UP * steps))
    if step < rise:
        share = 0.04 + 0.96 * 0.5 * (1 - math.cos(math.pi * step / rise))
    else:
        share = 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))
    return optimization.learning_rate * max(share, 1e-4)


def _loaded_ahead(batches: Sequence[Any], load: Callable[[Any], Any]) -> Iterator[Any]:
    """Every batch loaded, the next one meanwhile on another thread."""
    with ThreadPoolExecutor(max_workers=1) as loader:
        waiting = loader.submit(load, batches[0])
        for batch in batches[1:]:
            loaded = waiting.result()
            waiting = loader.submit(load, batch)
            yield loaded
        yield waiting.result()


def make_optimizer(
    module: nn.Module, new_layers: Sequence[nn.Module], optimization: Optimization
) -> torch.optim.Optimizer:
    """The optimizer of all parameters that are not frozen; a group's `share` scales its learning rate."""
    new = {id(parameter) for layer in new_layers for parameter in layer.parameters()}
    groups = []
    for share, is_new in ((optimization.pretrained_rate, False), (1.0, True)):
        for is_matrix in (True, False):
            chosen = [
                parameter
                for parameter in module.parameters()
                if parameter.requires_grad
                and (id(parameter) in new) == is_new
                and (parameter.ndim > 1) == is_matrix
            ]
            # AdamW leaves biases and normalisations alone: pulling them to 0 would fight what they stand for.
            decay = optimization.weight_decay if is_matrix or optimization.optimizer == "sgd" else 0.0
            groups.append({"params": chosen, "weight_decay": decay, "share": share})
    if optimization.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=optimization.learning_rate, momentum=optimization.momentum)
    return torch.optim.AdamW(groups, lr=optimization.learning_rate)


@torch.no_grad()
def _average(average: nn.Module, module: nn.Module, decay: float) -> None:
    # Parameters and buffers, not the state dict, which lists a gate that networks share once for each.
    averages = (*average.parameters(), *average.buffers())
    for kept, current in zip(averages, (*module.parameters(), *module.buffers()), strict=True):
        if kept.dtype.is_floating_point:
            kept.lerp_(current, 1 - decay)
        else:
            kept.copy_(current)


def _epoch_line(learner: Learner, state: PhaseState, figures: dict[str, float]) -> str:
    shown = ", ".join(f"{name} {value:.4f}" for name, value in figures.items() if name != "seconds")
    left = duration(figures["seconds"] * (learner.epochs - state.epoch))
    best = " (best so far)" if state.best_epoch == state.epoch else ""
    return f"{learner.name}: epoch {state.epoch}/{learner.epochs}: {shown}{best}; {left} left"
