"""Reading weight files of others safely into our networks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from poolsieve.networks.backbone import SplitBackbone


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` or torch file; a torch file is read without running any code in it."""
    if not path.is_file():
        raise ValueError(f"{path}: no such weight file")
    if path.suffix == ".safetensors":
        return load_file(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        first_line = str(error).splitlines()[0]
        raise ValueError(
            f"{path}: not a file of plain tensors ({first_line}); "
            "save it with torch.save(model.state_dict(), ...)"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path}: holds no state dict; save it with torch.save(model.state_dict(), ...)")
    return dict(state)


def load_weights(
    backbone: SplitBackbone, state: Mapping[str, Tensor], source_key: Callable[[str], str], source: str
) -> None:
    """Copy a state dict in its publisher's key layout into a backbone.

    Args:
        backbone: Changed in place.
        state: Tensors under the publisher's names.
        source_key: Gives the publisher's name of one of our parameters.
        source: What to call the state dict in messages.

    Raises:
        ValueError: Names or shapes do not agree; the message lists them.
    """
    own = backbone.state_dict()
    names = {key: source_key(key) for key in own}
    # Files written before torch 0.4.1 lack this counter, and evaluation does not use it.
    missing = [n for n in names.values() if n not in state and not n.endswith("num_batches_tracked")]
    unexpected = sorted(set(state) - set(names.values()))
    wrong = [
        f"{name} is {tuple(state[name].shape)} and not {tuple(own[key].shape)}"
        for key, name in names.items()
        if name in state and state[name].shape != own[key].shape
    ]
    faults = [
        f"{what}: {', '.join(found[:5])}{' …' if len(found) > 5 else ''}"
        for what, found in (("missing", missing), ("unexpected", unexpected), ("other shape", wrong))
        if found
    ]
    if faults:
        raise ValueError(f"{source} does not fit {backbone.name}; {'; '.join(faults)}")
    backbone.load_state_dict({key: state.get(name, own[key]) for key, name in names.items()})
