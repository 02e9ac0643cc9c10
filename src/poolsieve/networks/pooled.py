"""The paper's networks on front features: one image at a time (INN), or a pool at a time (BPNN, QPNN)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from poolsieve.designs import NO_IMAGE
from poolsieve.designs.pool_pairs import pair_places
from poolsieve.network_forms import Merge
from poolsieve.networks.backbone import SplitBackbone
from poolsieve.networks.gate import Gate
from poolsieve.networks.tree_back import TreeBack


@dataclass(frozen=True)
class PoolOutputs:
    """What a pooled network says.

    Attributes:
        logits: Unnormalised log-probabilities of each pool's counts 0 … r, or of clean and bad.
            # (m, outputs)
        features: The vectors before the final layer, as outlier detection takes them.  # (m, F)
        image_logits: The gate's opinion of every image; None with the plain maximum.  # (n,)
    """

    logits: Tensor
    features: Tensor
    image_logits: Tensor | None


class IndividualNetwork(nn.Module):
    """The INN (eq:inn) from the cut on: front features of single images to two logits, clean and bad.

    The backbone's back is copied, so that networks made from one backbone learn apart, and so is its final
    layer if it has as many outputs as needed; else that is new.
    """

    def __init__(self, backbone: SplitBackbone) -> None:
        super().__init__()
        self.back, self.final = _own_back(backbone, outputs=2)

    def embed(self, features: Tensor) -> Tensor:
        """The vectors before the final layer.  # (N, C, H, W) -> (N, F)."""
        return self.back(features)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of clean and bad.  # (N, C, H, W) -> (N, 2)."""
        return self.final(self.back(features))


class PooledNetwork(nn.Module):
    """BPNN and QPNN (eq:bpnn), and in matrix-pooled form BMPNN and QMPNN, from the cut on.

    The front features of n images go in once, with a table of pools; each image is reused in every pool
    that it is in. One pool is a table with one row, so the pooled and the matrix-pooled network are one.

    Args:
        backbone: Its back is copied as in `IndividualNetwork`.
        pool_size: Places in a pool, r. Pools may be shorter.
        counting: r + 1 outputs for the counts 0 … r (QPNN); otherwise 2, any bad image or none (BPNN).
        merge: `"max"` is the paper's entry-wise maximum, `"gated"` multiplies by the gate before it; `"tree"`
            takes the maximum over pairs, and again over what is left at later depths (`TreeBack`).
        again: Cut points behind which a tree merges again.
        gate: The gate to use with `"gated"`, not copied, so that networks can share it; made if not given.
    """

    def __init__(
        self,
        backbone: SplitBackbone,
        pool_size: int,
        *,
        counting: bool = True,
        merge: Merge = "max",
        again: Sequence[str] = (),
        gate: Gate | None = None,
    ) -> None:
        super().__init__()
        if pool_size < 1:
            raise ValueError(f"a pool has at least one place, not {pool_size}")
        if merge not in get_args(Merge):
            raise ValueError(f"merge is 'max', 'gated' or 'tree', not {merge!r}")
        if merge != "gated" and gate is not None:
            raise ValueError(f"merge={merge!r} uses no gate; pass merge='gated' to use it")
        if merge != "tree" and again:
            raise ValueError("only merge='tree' merges again behind the cut")
        channels = backbone.feature_shape[0]
        if gate is not None and gate.channels != channels:
            raise ValueError(f"the gate takes {gate.channels} channels, but the front gives {channels}")
        self.pool_size, self.counting = int(pool_size), counting
        self.merge: Merge = merge
        self.gate = Gate(channels) if merge == "gated" and gate is None else gate
        self.back: nn.Module
        self.final: nn.Module
        outputs = pool_size + 1 if counting else 2
        if merge == "tree":
            own = backbone.with_outputs(outputs)
            self.back, self.final = _learning(TreeBack(own, again, pool_size), own.final)
        else:
            self.back, self.final = _own_back(backbone, outputs)
        tallies = 0 if self.gate is None else self.gate.tallies
        self.tally: nn.Module | None = Tally(tallies, outputs) if tallies else None

    @torch.no_grad()
    def read_binary(self, shares: ArrayLike) -> None:
        """Make a counting network of what was trained as a binary one by its outputs 0 and 1 (eq:bpnn).

        Output 1 then stands for any bad image. It is copied to all higher counts, each less likely by its
        share of training pools: no count above 1 is ever read, and with the shares divided out again, as is
        done for likelihoods, all counts but 0 are equally likely.

        Args:
            shares: Of training pools with 0 … r bad images.  # (r + 1,)
        """
        table = torch.as_tensor(shares, dtype=torch.float32)
        less = torch.log((table[2:] / table[1]).clamp(1e-6, 0.999))
        layers = {cast(nn.Linear, self.final): less}
        if self.tally is not None:
            layers[cast(Tally, self.tally).out] = torch.zeros_like(less)
        for layer, added in layers.items():
            layer.weight[2:] = layer.weight[1]
            layer.bias[2:] = layer.bias[1] + added

    def for_pools_of(self, pool_size: int) -> PooledNetwork:
        """This network as one for smaller pools, with the same weights, not copied.

        A pool of r images holds at most r bad ones, so its logits are the first r + 1 of this network's.
        """
        return self if pool_size == self.pool_size else SmallerPools(self, pool_size)

    def forward(self, features: Tensor, pools: Tensor | ArrayLike) -> PoolOutputs:
        """Read all pools (eq:qmpnn_output and eq:bmpnn_output take the arg max of these logits).

        Args:
            features: Front features of n images.  # (n, C, H, W)
            pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)
        """
        table = pool_table(pools)
        if table.shape[1] > self.pool_size:
            raise ValueError(
                f"the network reads pools of up to {self.pool_size} images, not {table.shape[1]}"
            )
        image_logits, sums = None, None
        if self.gate is not None:
            gate, image_logits = self.gate(features)
            features = features * gate[:, :1]
            sums = None if self.tally is None else sum_pools(gate[:, 1:], table)
        if isinstance(self.back, TreeBack):
            depths = 1 + len(self.back.again)
            pairs = merge_pools(features, pair_places(table, self.pool_size, depths))
            vectors = self.back(_stacked(pairs.unflatten(0, (-1, self.back.pairs))))
        else:
            vectors = self.back(merge_pools(features, table))
        return PoolOutputs(self.read(vectors, sums), vectors, image_logits)

    def merge_places(self, features: Tensor) -> Tensor:
        """What the back takes of full and disjoint pools, from front features place by place.

        Args:
            features: All first images, then all second ones, … as they are merged.  # (r, m, C, H, W)
        """
        if not isinstance(self.back, TreeBack):
            return features.amax(dim=0)
        return _stacked(features.unflatten(0, (-1, 2)).amax(dim=1).transpose(0, 1))

    def read(self, vectors: Tensor, sums: Tensor | None) -> Tensor:
        """Logits of the counts.

        Args:
            vectors: The vectors before the final layer.  # (m, F)
            sums: What is tallied, summed over the images of each pool; not looked at by a network without
                tallies.  # (m, K, H, W)
        """
        logits: Tensor = self.final(vectors)
        return logits if self.tally is None or sums is None else logits + self.tally(sums)


class Tally(nn.Module):
    """What the sums of a pool's K tallies say of its count: logits added to those of the merged maps.

    It starts by saying nothing.
    """

    def __init__(self, tallies: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.hidden = nn.Linear(tallies, width)
        self.out = nn.Linear(width, outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, sums: Tensor) -> Tensor:
        """Sums over pools to logits.  # (m, K, H, W) -> (m, outputs)."""
        logits: Tensor = self.out(torch.relu(self.hidden(sums.mean(dim=(2, 3)))))
        return logits


class SmallerPools(PooledNetwork):
    """A counting network as one for pools with fewer places: all weights are the larger one's."""

    def __init__(self, larger: PooledNetwork, pool_size: int) -> None:
        nn.Module.__init__(self)
        if not larger.counting:
            raise ValueError("a binary network has the same two outputs for pools of every size")
        if larger.merge == "tree":
            raise ValueError("a tree is made for pools of one size")
        if not 1 <= pool_size < larger.pool_size:
            raise ValueError(f"the network reads pools of up to {larger.pool_size} images, not {pool_size}")
        self.pool_size, self.counting, self.merge = int(pool_size), True, larger.merge
        self.gate, self.back = larger.gate, larger.back
        self.final = _FirstOutputs(larger.final, pool_size + 1)
        self.tally = None if larger.tally is None else _FirstOutputs(larger.tally, pool_size + 1)


class _FirstOutputs(nn.Module):
    def __init__(self, layer: nn.Module, outputs: int) -> None:
        super().__init__()
        self.layer, self.outputs = layer, outputs

    def forward(self, values: Tensor) -> Tensor:
        logits: Tensor = self.layer(values)
        return logits[:, : self.outputs]


def _own_back(backbone: SplitBackbone, outputs: int) -> tuple[nn.Sequential, nn.Linear]:
    own = backbone.with_outputs(outputs)
    return _learning(own.back, own.final)


def _stacked(pairs: Tensor) -> Tensor:
    """A pool's merged pairs below each other.  # (m, r/2, C, H, W) -> (m, r/2 · C, H, W)."""
    return pairs.flatten(1, 2)


def _learning(back: nn.Sequential, final: nn.Linear) -> tuple[nn.Sequential, nn.Linear]:
    for parameter in (*back.parameters(), *final.parameters()):
        parameter.requires_grad_(True)  # the backbone may have been frozen to cache its front features
    return back, final


def merge_pools(features: Tensor, pools: Tensor | ArrayLike) -> Tensor:
    """The paper's SFM: entry-wise maximum over the front features of each pool's images.

    The maximum is taken place by place, so that m maps exist at a time and not m·r, and the memory layout
    (channels first or last) is kept. An empty place repeats the pool's first image, which changes no
    maximum. The gradient of an entry goes to the image that it came from.

    Args:
        features: Front features of n images.  # (n, C, H, W)
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)

    Returns:
        Merged features.  # (m, C, H, W)

    Raises:
        ValueError: A pool holds no image, or an image that is not there.
    """
    places = _filled_places(pool_table(pools), len(features), features.device)
    # Rows of a plain matrix: gathering from channels-last maps directly is up to 100 times slower in torch.
    channels_last = features.is_contiguous(memory_format=torch.channels_last)
    maps = features.permute(0, 2, 3, 1) if channels_last else features
    rows = maps.flatten(1)
    merged = rows.index_select(0, places[0])
    for place in places[1:].unbind():
        merged = torch.maximum(merged, rows.index_select(0, place))
    merged = merged.unflatten(1, maps.shape[1:])
    return merged.permute(0, 3, 1, 2) if channels_last else merged


def sum_pools(maps: Tensor, pools: Tensor | ArrayLike) -> Tensor:
    """Sums over each pool's images of small maps; an image that is named twice counts once.

    Args:
        maps: Maps of n images.  # (n, K, H, W)
        pools: Image numbers of each pool, −1 where a place is empty.  # (m, r)

    Returns:
        Sums.  # (m, K, H, W)
    """
    table = pool_table(pools).to(device=maps.device, dtype=torch.int64)
    held = torch.zeros(len(table), len(maps) + 1, dtype=maps.dtype, device=maps.device)
    held.scatter_(1, torch.where(table == NO_IMAGE, len(maps), table), 1.0)
    return (held[:, :-1] @ maps.flatten(1)).unflatten(1, maps.shape[1:])


def pool_table(pools: Tensor | ArrayLike) -> Tensor:
    """Pools as an integer tensor, checked.  # (m, r)."""
    table = pools if isinstance(pools, Tensor) else torch.from_numpy(np.array(pools))
    if table.ndim != 2 or table.is_floating_point() or 0 in table.shape:
        raise ValueError(f"pools is an integer table (pools, places); got {table.dtype} {tuple(table.shape)}")
    return table


def _filled_places(table: Tensor, images: int, device: torch.device) -> Tensor:
    """Image numbers place by place, empty places filled with the pool's first image.  # (r, m)."""
    table = table.to(device=device, dtype=torch.int64)
    present = table != NO_IMAGE
    empty = (~present.any(dim=1)).nonzero()
    if len(empty):
        raise ValueError(f"pool {int(empty[0])} holds no image; leave empty pools out")
    wrong = table[present & ((table < 0) | (table >= images))]
    if len(wrong):
        raise ValueError(f"a pool names image {int(wrong[0])}, but there are features of {images} images")
    first = table.gather(1, present.int().argmax(dim=1, keepdim=True))
    return torch.where(present, table, first).T.contiguous()
