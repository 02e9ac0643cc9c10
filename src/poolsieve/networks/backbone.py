"""A feed-forward network as a row of named stages, cut in two at one of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Preprocessing:
    """How pixels become network input: `(pixel − mean) / scale` per channel, on RGB from 0 to 255.

    Attributes:
        mean: Subtracted from each channel.
        scale: Divides each channel after that.
    """

    mean: tuple[float, float, float] = (123.675, 116.28, 103.53)
    scale: tuple[float, float, float] = (58.395, 57.12, 57.375)

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.scale) != 3:
            raise ValueError(f"mean and scale have one number per channel; got {self.mean} and {self.scale}")
        if not all(value > 0 for value in self.scale):
            raise ValueError(f"every scale must be positive; got {self.scale}")

    def __call__(self, pixels: Tensor) -> Tensor:
        """Turn RGB pixels of 0 to 255, as floats, into network input.  # (..., 3, H, W)."""
        mean, scale = (
            torch.tensor(values, dtype=pixels.dtype, device=pixels.device)[:, None, None]
            for values in (self.mean, self.scale)
        )
        return (pixels - mean) / scale


class SplitBackbone(nn.Module):
    """A backbone whose first blocks are the front and whose other blocks are the back (paper, eq:inn).

    The paper's blocks f⁽¹⁾ … f⁽ᴸ⁻¹⁾ are `stages` in order followed by the global pooling, and f⁽ᴸ⁾ is
    `final`. Cutting at the stage named `cut` makes l the number of stages up to and including it.
    `front` and `back` are views: they hold the same modules as `stages`, so training one trains the other.

    Args:
        name: What the backbone is called in messages and bundles.
        stages: The stages in order; the names are the cut points.
        final: The last linear layer.
        cut: The front ends after this stage.
        input_size: Height and width of the images in pixels.
        preprocessing: How pixels become network input.
        tail: What turns the last stage's output into a vector; by default the mean over locations.
        stage_shapes: Shape of one image's features after each stage, if known already; by default found.
        shrink: How many times smaller images are made, by the mean of blocks, before the first stage.

    Attributes:
        cut_points: Names of all stages, in order.
    """

    def __init__(
        self,
        name: str,
        stages: Mapping[str, nn.Module],
        final: nn.Linear,
        *,
        cut: str,
        input_size: int,
        preprocessing: Preprocessing,
        tail: nn.Module | None = None,
        stage_shapes: Mapping[str, tuple[int, ...]] | None = None,
        shrink: int = 1,
    ) -> None:
        super().__init__()
        if shrink < 1 or input_size % shrink:
            raise ValueError(f"shrink is {shrink}, but must divide the {input_size} pixels that {name} takes")
        self.name, self.cut_points = name, tuple(stages)
        self.input_size, self.preprocessing, self.shrink = int(input_size), preprocessing, shrink
        self.stages = nn.ModuleDict({_module_key(point): stage for point, stage in stages.items()})
        self.tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1)) if tail is None else tail
        self.final = final
        self.stage_shapes = dict(stage_shapes) if stage_shapes is not None else self._find_shapes()
        self.cut = self._checked(cut)

    @property
    def front(self) -> nn.Sequential:
        """Images (N, 3, S, S) to front features (N, C, H, W), the paper's IFM."""
        return self.segment(None, self.cut)

    @property
    def back(self) -> nn.Sequential:
        """Front or merged features (N, C, H, W) to feature vectors (N, F)."""
        return self.segment(self.cut, None)

    @property
    def feature_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image's front features."""
        channels, height, width = self.stage_shapes[self.cut]
        return channels, height, width

    @property
    def feature_width(self) -> int:
        """Length of the vector that `back` gives, the "last-but-one layer"."""
        return self.final.in_features

    def segment(self, start: str | None, stop: str | None) -> nn.Sequential:
        """The stages after cut point `start`, up to and including `stop`, as a view on the same modules.

        Args:
            start: Cut point whose output the segment takes; None to take images.
            stop: Cut point whose output the segment gives; None to give the vector before the final layer.
        """
        first = 0 if start is None else self.cut_points.index(self._checked(start)) + 1
        last = len(self.cut_points) if stop is None else self.cut_points.index(self._checked(stop)) + 1
        if first >= last and stop is not None:
            raise ValueError(f"{self.name}: no stage lies after {start!r} and up to {stop!r}")
        parts = list(self._stage_map().values())[first:last]
        if start is None and self.shrink > 1:
            parts = [nn.AvgPool2d(self.shrink), *parts]
        view = nn.Sequential(*parts, *([self.tail] if stop is None else []))
        view.training = self.training  # a new Sequential would claim to be training
        return view

    def with_cut(self, cut: str) -> SplitBackbone:
        """The same modules, cut elsewhere."""
        return self._assembled(self._stage_map(), self.final, self.tail, self._checked(cut))

    def shrunk(self, times: int) -> SplitBackbone:
        """The same modules on images that are made so many times smaller first."""
        return SplitBackbone(
            self.name,
            self._stage_map(),
            self.final,
            cut=self.cut,
            input_size=self.input_size,
            preprocessing=self.preprocessing,
            tail=self.tail,
            shrink=times,
        ).train(self.training)

    def with_outputs(self, outputs: int) -> SplitBackbone:
        """A backbone that shares this front but has its own copy of the back and its own final layer.

        The copies start with equal weights and learn apart. The front is the same modules, so it can only
        be trained, frozen, or put in evaluation mode for all that share it.

        Args:
            outputs: Number of outputs: 2 for individual and binary networks, r + 1 for counting ones. The
                final layer is copied if it has as many, and else new.
        """
        if outputs < 1:
            raise ValueError(f"a network needs at least one output, not {outputs}")
        boundary = self.cut_points.index(self.cut)
        stages = {
            point: stage if k <= boundary else copy.deepcopy(stage)
            for k, (point, stage) in enumerate(self._stage_map().items())
        }
        weight, final = self.final.weight, copy.deepcopy(self.final)
        if final.out_features != outputs:
            final = nn.Linear(final.in_features, outputs, device=weight.device, dtype=weight.dtype)
        return self._assembled(stages, final, copy.deepcopy(self.tail), self.cut)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of every image: final ∘ back ∘ front (eq:inn).  # (N, 3, S, S) -> (N, outputs)."""
        return self.final(self.back(self.front(images)))

    def _stage_map(self) -> dict[str, nn.Module]:
        return {point: self.stages[_module_key(point)] for point in self.cut_points}

    def _assembled(
        self, stages: Mapping[str, nn.Module], final: nn.Linear, tail: nn.Module, cut: str
    ) -> SplitBackbone:
        made = SplitBackbone(
            self.name,
            stages,
            final,
            cut=cut,
            input_size=self.input_size,
            preprocessing=self.preprocessing,
            tail=tail,
            stage_shapes=self.stage_shapes,
            shrink=self.shrink,
        )
        made.training = self.training
        return made

    def _checked(self, cut: str) -> str:
        if cut not in self.cut_points:
            raise ValueError(
                f"{self.name} has no cut point {cut!r}; its cut points are {', '.join(self.cut_points)}"
            )
        if len(self.stage_shapes[cut]) != 3:
            raise ValueError(
                f"{self.name} cannot be cut after {cut!r}: it gives {self.stage_shapes[cut]} and not "
                "feature maps (channels, height, width); choose an earlier cut point"
            )
        return cut

    def _find_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one image's features after every stage, found without computing anything."""
        side = self.input_size // self.shrink
        values = torch.empty(1, 3, side, side, device="meta")
        shapes: dict[str, tuple[int, ...]] = {}
        for point, stage in self._stage_map().items():
            values = without_numbers(stage)(values)
            shapes[point] = tuple(values.shape[1:])
        return shapes


def without_numbers(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode whose tensors have shapes but no storage, to find shapes and costs with."""
    memo: dict[int, object] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach().to("meta"), requires_grad=False)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer.to("meta")
    return copy.deepcopy(module, memo).eval()  # deepcopy takes these in place of the real tensors


def _module_key(point: str) -> str:
    """Modules of torch may have no dots in their names."""
    return point.replace(".", "_")
