"""Reading weight files of others safely into our networks."""

from __future__ import annotations

import hashlib
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from poolsieve.networks.backbone import SplitBackbone

_TORCH_ERRORS = (
    *(pickle.UnpicklingError, RuntimeError, EOFError, LookupError, ValueError, TypeError, AttributeError),
    *(AssertionError, OverflowError, struct.error, zipfile.BadZipFile),
)
"""What `torch.load` lets through on damaged files."""


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` or torch file; a torch file is read without running any code in it."""
    if not path.is_file():
        raise ValueError(
            f"{path}: no such weight file; name an existing one (on the command line with --weights FILE)"
        )
    if path.suffix == ".safetensors":
        return read_safetensors(path)[0]
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except _TORCH_ERRORS as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"{path}: damaged, or not a file of plain tensors ({first_line}); get it anew, or save it with "
            "torch.save(model.state_dict(), ...)"
        ) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path}: holds no state dict; save it with torch.save(model.state_dict(), ...)")
    return dict(state)


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file.

    Raises:
        ValueError: The file is damaged.
        OSError: The file cannot be opened.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a dict
            return tensors, stored.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error})") from error


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


def hash_weights(module: nn.Module) -> str:
    """A hash of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def copied_tensors(parts: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Copies of all tensors of modules, whose names begin with the prefixes given.

    They are copies because safetensors refuses tensors that share memory, as networks with one gate do.
    """
    return {
        prefix + name: value.detach().clone(memory_format=torch.contiguous_format)
        for prefix, part in parts.items()
        for name, value in part.state_dict().items()
    }


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
