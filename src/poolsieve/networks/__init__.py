"""Backbones cut in two, and the individual and pooled networks built on them.

Needs torch, which the extra `poolsieve[train]` installs; moderating images does not import this package.
"""

from poolsieve.networks.backbone import Preprocessing, SplitBackbone
from poolsieve.networks.gate import Gate
from poolsieve.networks.glance_network import GlanceNetwork
from poolsieve.networks.named_backbones import list_backbones, load_backbone
from poolsieve.networks.operation_counts import multiply_adds, stage_multiply_adds
from poolsieve.networks.pooled import (
    IndividualNetwork,
    PooledNetwork,
    PoolOutputs,
    SmallerPools,
    merge_pools,
)
from poolsieve.networks.splitting import split_module

__all__ = [
    "Gate",
    "GlanceNetwork",
    "IndividualNetwork",
    "PoolOutputs",
    "PooledNetwork",
    "Preprocessing",
    "SmallerPools",
    "SplitBackbone",
    "list_backbones",
    "load_backbone",
    "merge_pools",
    "multiply_adds",
    "split_module",
    "stage_multiply_adds",
]
