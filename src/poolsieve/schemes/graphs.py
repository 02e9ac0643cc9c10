"""Which graphs of a bundle a scheme runs."""

from __future__ import annotations

from poolsieve.bundles.config import (
    FRONT_GRAPH,
    GLANCE_GRAPH,
    HEAD_GRAPH,
    INDIVIDUAL_GRAPH,
    BundleConfig,
)
from poolsieve.schemes.adaptive import Adaptive
from poolsieve.schemes.base import PooledScheme, Scheme
from poolsieve.schemes.cascade import Cascade
from poolsieve.schemes.glance import Glance
from poolsieve.schemes.oneshot import OneShot


def used_graphs(scheme: Scheme, config: BundleConfig) -> list[str]:
    """Files of the graphs that a full chunk needs, in the order of their use."""
    looks = isinstance(scheme, Cascade) or (isinstance(scheme, Adaptive) and scheme.use_head)
    files = [GLANCE_GRAPH, FRONT_GRAPH] if isinstance(scheme, Glance) else [FRONT_GRAPH]
    if looks or (isinstance(scheme, PooledScheme) and config.merge == "gated"):
        files.append(HEAD_GRAPH)
    if isinstance(scheme, PooledScheme):
        sizes = [scheme.pool_size]
        if isinstance(scheme, Adaptive) and scheme.large_pool_size is not None:
            sizes.append(scheme.large_pool_size)
        files += dict.fromkeys(config.counting_graph(size) for size in sizes)
    if not isinstance(scheme, OneShot):
        files.append(INDIVIDUAL_GRAPH)
    return files
