"""Names, types and shapes of what goes into and comes out of every graph of a bundle."""

from __future__ import annotations

from dataclasses import dataclass

from poolsieve.bundles.config import (
    FRONT_GRAPH,
    GLANCE_GRAPH,
    HEAD_GRAPH,
    INDIVIDUAL_GRAPH,
    BundleConfig,
    pooled_graph,
)


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a graph.

    Attributes:
        name: Its name in the graph.
        dtype: "uint8" or "float32".
        shape: Shape of one row; the number of rows is free and comes before it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} ({', '.join(['N', *map(str, self.shape)])})"


@dataclass(frozen=True)
class GraphSpec:
    """Input and outputs of a graph."""

    input: TensorSpec
    outputs: tuple[TensorSpec, ...]


def graph_specs(config: BundleConfig) -> dict[str, GraphSpec]:
    """What every graph of a bundle must take and give, by file.

    Normalising pixels is part of the front graph, so that every engine preprocesses alike. A counting graph
    takes merged features, and below them the sums of what is tallied; merging stands outside, since a pool's
    images are chosen at run time. That of a tree takes all merged pairs of a pool below each other and merges
    them further itself.
    """
    size, maps = config.input_size, config.feature_shape
    channels, *places = maps
    vector = _float("vector", config.feature_width)
    gate = _float("gate", 1 + config.tallies, *places)
    images = TensorSpec("images", "uint8", (size, size, 3))
    specs = {
        FRONT_GRAPH: GraphSpec(images, (_float("features", *maps),)),
        HEAD_GRAPH: GraphSpec(_float("features", *maps), (gate, _float("logit"))),
        INDIVIDUAL_GRAPH: GraphSpec(
            images if config.joined else _float("features", *maps), (_float("logits", 2), vector)
        ),
    }
    for pool_size in config.network_sizes:
        outputs = (_float("logits", pool_size + 1), vector)
        merged = channels * (pool_size // 2 if config.merge == "tree" else 1) + config.tallies
        specs[pooled_graph(pool_size)] = GraphSpec(_float("merged", merged, *places), outputs)
    if config.glance is not None:
        specs[GLANCE_GRAPH] = GraphSpec(
            _float("features", *maps) if config.joined else images, (_float("logit"),)
        )
    return specs


def _float(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", shape)
