"""Bundles: trained networks as folders that can be checked, moved and run without torch.

A bundle holds ONNX graphs, `config.json` with the hash of every file, `calibration.json`,
`model.safetensors` to go on training with, and a model card. Nothing in it can run code when it is read.
"""

from poolsieve.bundles.config import GLANCE_GRAPH, BundleConfig, FileRecord, MultiplyAdds
from poolsieve.bundles.loading import (
    Bundle,
    find_bundle,
    list_bundles,
    load_bundle,
    read_config,
    verify_bundle,
)
from poolsieve.bundles.recordings import PoolRecording, Recordings

__all__ = [
    "GLANCE_GRAPH",
    "Bundle",
    "BundleConfig",
    "FileRecord",
    "MultiplyAdds",
    "PoolRecording",
    "Recordings",
    "find_bundle",
    "list_bundles",
    "load_bundle",
    "read_config",
    "verify_bundle",
]
