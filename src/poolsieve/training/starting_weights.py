"""The backbone that a run starts from, with weights of a file, of another run, or of a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load

from poolsieve.bundles import load_bundle
from poolsieve.bundles.config import CONFIG_FILE, FRONT_GRAPH, INDIVIDUAL_GRAPH, WEIGHTS_FILE
from poolsieve.bundles.loading import SHIPPED
from poolsieve.images.locations import is_remote
from poolsieve.networks import SplitBackbone, load_backbone
from poolsieve.networks.weights import read_safetensors, with_prefix
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.training_folder import SETTINGS_FILE


def starting_backbone(settings: TrainingSettings) -> SplitBackbone:
    """The backbone that settings name, with its weights.

    Raises:
        ValueError: The backbone, its cut or the weights are wrong; the message says what there is.
    """
    source = settings.weights
    learnt = source is not None and _holds_networks(source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # of the layer for ImageNet's classes, which nothing learnt or will learn
        backbone = load_backbone(
            settings.backbone,
            cut=settings.cut,
            pretrained=not learnt,
            weights=None if learnt else source,
            input_size=settings.input_size,
            shrink=settings.shrink,
        )
    if source is not None and learnt:
        take_learnt_weights(backbone, source)
    return backbone


def _holds_networks(source: str) -> bool:
    """Whether weights are those of a run or a bundle, and no file."""
    shipped = not Path(source).exists() and (SHIPPED / source).is_dir()
    return is_remote(source) or Path(source).is_dir() or shipped


def take_learnt_weights(backbone: SplitBackbone, source: str) -> None:
    """Give a backbone the weights that its copy in a run or a bundle had learnt: front and individual back.

    Args:
        backbone: Changed in place. Where it is cut and how large its images are may differ.
        source: Folder of a finished training run, or a bundle.

    Raises:
        ValueError: It is of another backbone, or has no such weights.
    """
    folder = Path(source)
    a_run = (folder / SETTINGS_FILE).is_file()
    name, cut, shrink, tensors = _of_run(folder) if a_run else _of_bundle(source)
    if name != backbone.name:
        raise ValueError(f"{source} has weights of {name}, but the backbone is {backbone.name}")
    alike = backbone.with_cut(cut).shrunk(shrink)  # the same modules, parted as they were there
    for prefix, part in (("front.", alike.front), ("back.", alike.back)):
        own, given = part.state_dict(), with_prefix(tensors, prefix)
        missing = [key for key in own if key not in given and not key.endswith("num_batches_tracked")]
        if missing:
            raise ValueError(
                f"{source} lacks weights, such as {prefix}{missing[0]} (graphs hold equal ones once); start "
                f"from its training run, or from a bundle with {WEIGHTS_FILE}"
            )
        part.load_state_dict({key: given.get(key, value).float() for key, value in own.items()})


def _of_run(folder: Path) -> tuple[str, str, int, Mapping[str, torch.Tensor]]:
    file = folder / CONFIG_FILE
    if not file.is_file():
        raise ValueError(f"the run in {folder} is not finished, so that nothing can start from it")
    config = json.loads(file.read_bytes())
    tensors, _ = read_safetensors(folder / WEIGHTS_FILE)
    return config["backbone"], config["cut"], config["shrink"], _of_single_images(tensors)


def _of_single_images(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Those of a weight file that look at single images, with the names that they have in graphs."""
    front = {name: value for name, value in tensors.items() if name.startswith("front.")}
    return front | with_prefix(tensors, "individual.")


def _of_bundle(source: str) -> tuple[str, str, int, Mapping[str, torch.Tensor]]:
    import onnx
    from onnx import numpy_helper

    bundle = load_bundle(source)
    config = bundle.config
    if config.joined or config.precision == "int8":
        raise ValueError(f"{bundle.path} is made of other bundles; start from one of those")
    if bundle.has_weights:
        held = _of_single_images(load(bundle.read(WEIGHTS_FILE)))
        return config.backbone, config.cut, config.shrink, held
    tensors = {}
    for file in (FRONT_GRAPH, INDIVIDUAL_GRAPH):
        for tensor in onnx.load_model_from_string(bundle.read(file)).graph.initializer:
            values = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            tensors[tensor.name.removesuffix(".fp16")] = values
    return config.backbone, config.cut, config.shrink, tensors
