"""The outcome of a training run: one front, the networks on it, and how they are kept on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from poolsieve._version import __version__
from poolsieve.files import write_atomically
from poolsieve.network_forms import Counting, Merge
from poolsieve.networks import (
    Gate,
    GlanceNetwork,
    IndividualNetwork,
    PooledNetwork,
    SmallerPools,
    SplitBackbone,
    load_backbone,
)
from poolsieve.networks.tree_back import TreeBack
from poolsieve.networks.weights import copied_tensors, read_safetensors, with_prefix

MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
FORMAT_VERSION = 1
_SHAPE = ("pool_sizes", "merge", "again", "gate_width", "tallies", "counting", "glance")
_NEEDED = ("format", "backbone", "cut", "input_size", "shrink", *(set(_SHAPE) - {"again"}))


@dataclass(frozen=True)
class TrainedModel:
    """One shared front with all that was trained on it.

    Attributes:
        backbone: The backbone; its front is the shared one.
        individual: The individual network.
        counting: Counting networks by pool size; smaller sizes may share the weights of the largest.
        gate: The gate with its cheap head; with the plain maximum only its head is of use.
        merge: How pools are merged.
        glance: The small network for the first look, if there is one.
    """

    backbone: SplitBackbone
    individual: IndividualNetwork
    counting: dict[int, PooledNetwork]
    gate: Gate
    merge: Merge
    glance: GlanceNetwork | None = None

    @classmethod
    def new(
        cls,
        backbone: SplitBackbone,
        pool_sizes: Sequence[int],
        *,
        merge: Merge,
        again: Sequence[str] = (),
        gate_width: int,
        tallies: bool,
        counting: Counting,
        glance: Mapping[str, Any] | None,
    ) -> TrainedModel:
        """Networks that have not learnt, on a backbone that may have; a glance by its shrink and stop.

        `again` are the cut points behind which a tree merges again.
        """
        gate = Gate(backbone.feature_shape[0], gate_width, tallies=tallies)
        return cls(
            backbone,
            IndividualNetwork(backbone),
            counting_networks(backbone, pool_sizes, merge, gate, again=again, shared=counting == "shared"),
            gate,
            merge,
            None if glance is None else GlanceNetwork(backbone, **glance),
        )

    def load_weights(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Give all parts their weights, named as in `parts`, and make them ready to run.

        Raises:
            RuntimeError: They do not fit.
        """
        for prefix, part in self.parts().items():
            part.load_state_dict(with_prefix(tensors, f"{prefix}."))
        for module in (self.backbone, *self.parts().values()):
            module.eval()

    @property
    def own_counting(self) -> dict[int, PooledNetwork]:
        """The counting networks that have weights of their own, by pool size."""
        return {size: net for size, net in self.counting.items() if not isinstance(net, SmallerPools)}

    @property
    def tree(self) -> TreeBack | None:
        """The back of a counting network that merges at several depths; None if they merge once."""
        back = next(iter(self.counting.values())).back
        return back if isinstance(back, TreeBack) else None

    @property
    def again(self) -> tuple[str, ...]:
        """Cut points behind which pools are merged again."""
        backbone, tree = self.backbone, self.tree
        boundary = backbone.cut_points.index(backbone.cut) + 1
        return () if tree is None else tuple(backbone.cut_points[boundary + place] for place in tree.again)

    @property
    def sharing(self) -> Counting:
        """Whether one counting network serves all pool sizes."""
        return "separate" if len(self.own_counting) == len(self.counting) else "shared"

    def parts(self) -> dict[str, nn.Module]:
        """The separately trained parts by the prefix of their names in `model.safetensors`."""
        parts: dict[str, nn.Module] = {"front": self.backbone.front}
        parts |= {"individual.back": self.individual.back, "individual.final": self.individual.final}
        for size, network in self.own_counting.items():
            parts |= {f"counting.{size}.back": network.back, f"counting.{size}.final": network.final}
            if network.tally is not None:
                parts[f"counting.{size}.tally"] = network.tally
        parts["gate"] = self.gate
        return parts if self.glance is None else parts | {"glance": self.glance}


def counting_networks(
    backbone: SplitBackbone,
    pool_sizes: Sequence[int],
    merge: Merge,
    gate: Gate,
    *,
    again: Sequence[str] = (),
    shared: bool,
) -> dict[int, PooledNetwork]:
    """New counting networks by pool size.

    Args:
        backbone: What their backs start from.
        pool_sizes: Pool sizes r.
        merge: How pools are merged.
        gate: The gate, used if merging is gated.
        again: Cut points behind which a tree merges again.
        shared: Make one network, for the largest size, that serves all.
    """
    opening = gate if merge == "gated" else None
    kind: dict[str, Any] = {"merge": merge, "again": again, "gate": opening}
    if not shared:
        return {size: PooledNetwork(backbone, size, **kind) for size in pool_sizes}
    largest = PooledNetwork(backbone, max(pool_sizes), **kind)
    return {size: largest.for_pools_of(size) for size in pool_sizes}


def save_model(folder: Path, model: TrainedModel, entries: dict[str, Any]) -> None:
    """Write `model.safetensors` and `config.json`.

    Args:
        folder: The run's folder.
        model: What was trained.
        entries: Further entries of the configuration: task, resize_mode, the training settings.
    """
    tensors = copied_tensors({f"{prefix}.": part for prefix, part in model.parts().items()})
    write_atomically(folder / MODEL_FILE, save(tensors))
    backbone, glance = model.backbone, model.glance
    config = {
        "format": FORMAT_VERSION,
        "poolsieve": __version__,
        "torch": torch.__version__,
        "backbone": backbone.name,
        "cut": backbone.cut,
        "input_size": backbone.input_size,
        "shrink": backbone.shrink,
        "feature_shape": list(backbone.feature_shape),
        "mean": list(backbone.preprocessing.mean),
        "scale": list(backbone.preprocessing.scale),
        "pool_sizes": sorted(model.counting),
        "counting": model.sharing,
        "merge": model.merge,
        "again": list(model.again),
        "gate_width": model.gate.width,
        "tallies": bool(model.gate.tallies),
        "glance": None if glance is None else {"shrink": glance.shrink, "stop": glance.stop},
        **entries,
    }
    write_atomically(folder / CONFIG_FILE, (json.dumps(config, indent=2) + "\n").encode())


def load_model(folder: Path, backbone: SplitBackbone | None = None) -> TrainedModel:
    """Read back what `save_model` wrote, in evaluation mode.

    Args:
        folder: The run's folder.
        backbone: The network that was trained, if it was none of those that poolsieve knows by name; its
            front is overwritten.

    Raises:
        ValueError: A file is damaged, or the backbone is not the one that was trained.
        OSError: A file is missing.
    """
    config = _read_config(folder / CONFIG_FILE)
    size = config["input_size"]
    if backbone is None:
        backbone = load_backbone(
            config["backbone"],
            cut=config["cut"],
            pretrained=False,
            input_size=size,
            shrink=config["shrink"],
        )
    elif backbone.input_size != size:
        raise ValueError(
            f"{folder} was trained on images of {size} pixels, but the backbone given takes "
            f"{backbone.input_size}"
        )
    model = TrainedModel.new(backbone, **{name: config[name] for name in _SHAPE if name in config})
    tensors, _ = read_safetensors(folder / MODEL_FILE)
    try:
        model.load_weights(tensors)
    except RuntimeError as error:
        raise ValueError(f"{folder / MODEL_FILE} does not fit {folder / CONFIG_FILE}: {error}") from error
    return model


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text())
        missing = [name for name in _NEEDED if name not in config]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: damaged ({error})") from error
    if missing:
        raise ValueError(f"{file}: damaged, it has no {', '.join(missing)}")
    if config["format"] != FORMAT_VERSION:
        raise ValueError(
            f"{file} has format {config['format']}; this version of poolsieve reads format {FORMAT_VERSION}"
        )
    return dict(config)
