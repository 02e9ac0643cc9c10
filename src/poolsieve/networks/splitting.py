"""Cutting any other network in two by naming its child modules."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from poolsieve.networks.backbone import Preprocessing, SplitBackbone
from poolsieve.networks.weights import read_weights

_SUGGESTIONS = 10


def split_module(
    module: nn.Module,
    stages: Sequence[str],
    final: str,
    *,
    cut: str,
    input_size: int,
    preprocessing: Preprocessing | None = None,
    name: str | None = None,
) -> SplitBackbone:
    """Cut a network that you built yourself.

    The split network shares the parameters of `module`. It is run once on noise beside `module`: where
    `forward` does more than call the named children in order, the two differ, and that is an error here
    and not a wrong result later.

    Args:
        module: A feed-forward network for images (N, 3, S, S).
        stages: Paths of child modules such as `"layer1"` or `"features.3"`, in the order in which they run,
            without the final layer. If the last one gives feature maps, their mean over locations follows.
        final: Path of the last linear layer.
        cut: One of `stages`; the front ends after it.
        input_size: Height and width of the images in pixels.
        preprocessing: How pixels become network input; by default torchvision's ImageNet constants.
        name: What to call the backbone; by default the name of the module's class.

    Raises:
        ValueError: A path does not exist, or the stages in a row are not the network.
    """
    children = {path: _child(module, path) for path in stages}
    if len(children) != len(stages):
        raise ValueError(f"stages names a child twice: {', '.join(stages)}")
    last = _child(module, final)
    if not isinstance(last, nn.Linear):
        raise ValueError(f"the final layer {final!r} must be nn.Linear, not {type(last).__name__}")
    modes = {child: child.training for child in module.modules()}
    module.eval()
    try:
        split = _assemble(module, children, last, cut, input_size, preprocessing, name)
    finally:
        for child, mode in modes.items():  # one by one, since parts of a network may be frozen
            child.training = mode
    split.training = module.training
    return split


def split_timm(
    name: str,
    *,
    cut: str | None,
    pretrained: bool,
    weights: str | os.PathLike[str] | None,
    input_size: int | None,
) -> SplitBackbone:
    """A model of timm whose forward pass is its children in order, as in its convolutional families."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"timm:{name} needs timm, which cannot be imported here ({error}); install timm and a matching "
            "torchvision, or take one of poolsieve.networks.list_backbones()"
        ) from error
    if not timm.is_model(name.split(".")[0]):  # a tag of pretrained weights may follow the dot
        known = timm.list_models()
        close = [other for other in known if name and name in other]
        close += difflib.get_close_matches(name, known, n=_SUGGESTIONS, cutoff=0.5)
        shown = ", ".join(list(dict.fromkeys(close))[:_SUGGESTIONS]) or "none; see timm.list_models()"
        raise ValueError(f"timm has no model {name!r}; names close to it: {shown}")
    model = timm.create_model(name, pretrained=pretrained and weights is None)
    if weights is not None:
        try:
            model.load_state_dict(read_weights(Path(weights)))
        except RuntimeError as error:
            raise ValueError(f"{weights} does not fit timm:{name}; {error}") from error
    config = model.pretrained_cfg
    size = input_size or int(config["input_size"][-1])
    classifier = model.get_classifier()
    final = next(path for path, child in model.named_modules() if child is classifier)
    stages = _stages_in_order(model, classifier)
    maps = [path for path in stages if not path.startswith(("global_pool", "head"))]
    return split_module(
        model,
        stages,
        final,
        cut=cut if cut is not None else maps[len(maps) // 2],
        input_size=size,
        preprocessing=Preprocessing(
            mean=tuple(255.0 * value for value in config["mean"]),
            scale=tuple(255.0 * value for value in config["std"]),
        ),
        name=f"timm:{name}",
    ).eval()


@torch.no_grad()
def _assemble(
    module: nn.Module,
    children: dict[str, nn.Module],
    final: nn.Linear,
    cut: str,
    input_size: int,
    preprocessing: Preprocessing | None,
    name: str | None,
) -> SplitBackbone:
    """The children in a row, checked against the whole on noise."""
    images = torch.randn(2, 3, input_size, input_size, generator=torch.Generator().manual_seed(0))
    values = images
    try:
        for child in children.values():
            values = child(values)
    except RuntimeError as error:
        raise ValueError(f"the stages {', '.join(children)} do not fit together: {error}") from error
    split = SplitBackbone(
        name or type(module).__name__,
        children,
        final,
        cut=cut,
        input_size=input_size,
        preprocessing=preprocessing or Preprocessing(),
        tail=None if values.ndim == 4 else nn.Identity(),
    )
    expected = module(images)
    try:
        found = split(images)
    except RuntimeError as error:
        raise ValueError(f"the output of the last stage does not fit the final layer: {error}") from error
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-3, atol=1e-4):
        raise ValueError(
            f"the named stages in a row do not compute what {split.name} computes: its forward does "
            "something between them (an activation, a sum, a reshape); name more children, or wrap those "
            "steps in modules"
        )
    return split


def _stages_in_order(model: nn.Module, classifier: nn.Module) -> list[str]:
    """Children before the classifier; rows of blocks are opened so that one can cut between them."""
    stages: list[str] = []
    for path, child in model.named_children():
        if child is classifier:
            break
        if type(child) is nn.Sequential and len(child) > 1 and any(len(list(c.children())) for c in child):
            stages += [f"{path}.{inner}" for inner, _ in child.named_children()]
        elif not isinstance(child, nn.Identity):
            stages.append(path)
    return stages


def _child(module: nn.Module, path: str) -> nn.Module:
    try:
        return module.get_submodule(path)
    except AttributeError:
        known = ", ".join(name for name, _ in module.named_children())
        raise ValueError(f"{type(module).__name__} has no child {path!r}; its children are {known}") from None
