"""A bundle of a network with two convolutions and random weights, and images for it, made in a second.

Its counting network reads pools of 8 and knows nothing; its individual network looks at brightness.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from poolsieve.bundles import Bundle

SIZE = 32


def small_bundle(folder: Path) -> Bundle:
    from drawn_weights import draw_weights, drawn, drawn_gate
    from torch import nn

    from poolsieve.calibration import Calibration, calibrate_counting, fit_scaling, roc_curve
    from poolsieve.export import save_bundle
    from poolsieve.networks import (
        GlanceNetwork,
        IndividualNetwork,
        PooledNetwork,
        Preprocessing,
        SplitBackbone,
    )
    from poolsieve.networks.trained import TrainedModel

    stages = {
        "first": nn.Sequential(nn.Conv2d(3, 6, 3, 4, bias=False), nn.BatchNorm2d(6), nn.ReLU()),
        "second": nn.Sequential(nn.Conv2d(6, 8, 3, 2), nn.ReLU()),
    }
    backbone = SplitBackbone(
        "small", stages, nn.Linear(8, 5), cut="first", input_size=SIZE, preprocessing=Preprocessing()
    ).eval()
    draw_weights(backbone)
    gate = drawn_gate(drawn(16, *backbone.feature_shape, low=0), width=16)
    counting = {8: PooledNetwork(backbone, 8, merge="gated", gate=gate)}
    glance = GlanceNetwork(backbone)
    model = TrainedModel(backbone, IndividualNetwork(backbone), counting, gate, "gated", glance)
    for seed, part in enumerate((model.individual.final, counting[8].final, glance.final)):
        draw_weights(part, seed=seed, scale=4.0)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    scaling = fit_scaling(rng.normal(size=(60, 2)) + labels[:, None] * [-1, 1], labels)
    roc = roc_curve(rng.normal(size=60) + labels, labels)
    counts = calibrate_counting(rng.normal(size=(80, 9)), rng.integers(0, 9, 80))
    calibration = Calibration(scaling, roc, scaling, roc, {8: counts}, scaling, roc)
    return save_bundle(folder, model, calibration, task="light", resize_mode="pad")


def write_data(folder: Path, per_split: int = 24, *, swapped: bool = False) -> Path:
    """A CSV of images, of which the bad third is darker (brighter if swapped)."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rows = []
    for split in ("train", "val", "test"):
        for k in range(per_split):
            bad = k % 3 == 0
            top = 120 if bad != swapped else 255
            file = folder / f"{split}-{k}.png"
            pixels = rng.integers(0, top, (40, 40 + k % 5, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(file)
            rows.append({"file": file.name, "label": int(bad), "split": split})
    with (folder / "data.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "data.csv"
