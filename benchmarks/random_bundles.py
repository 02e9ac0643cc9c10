"""Bundles of networks with random weights, for measurements that do not depend on what is judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from poolsieve.bundles import Bundle, load_bundle


def random_bundle(
    folder: Path, backbone: str, input_size: int | None, *, cut: str | None = None, gate_width: int = 16
) -> Bundle:
    """A bundle that judges at random, plainly merged as in the paper; made once."""
    if (folder / "config.json").exists():
        return load_bundle(folder)
    import torch

    from poolsieve.calibration import Calibration, calibrate_counting, fit_scaling, roc_curve
    from poolsieve.export import save_bundle
    from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork, load_backbone
    from poolsieve.networks.trained import TrainedModel

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    scaling = fit_scaling(rng.normal(size=(200, 2)), labels)
    roc = roc_curve(rng.normal(size=200) + labels, labels)
    counting = calibrate_counting(rng.normal(size=(200, 9)), rng.integers(0, 9, 200))
    split = load_backbone(backbone, cut=cut, pretrained=False, input_size=input_size).eval()
    model = TrainedModel(
        split,
        IndividualNetwork(split).eval(),
        {8: PooledNetwork(split, 8, merge="max").eval()},
        Gate(split.feature_shape[0], gate_width).eval(),
        "max",
    )
    calibration = Calibration(scaling, roc, scaling, roc, {8: counting})
    return save_bundle(folder, model, calibration, task="random", resize_mode="stretch")
