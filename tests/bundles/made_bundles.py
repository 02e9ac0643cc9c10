"""Small bundles with weights that were not trained for a task, made through the files of a training run."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from drawn_weights import draw_weights, drawn, drawn_backbone, drawn_gate
from torch import nn

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.calibration import Calibration, calibrate_counting, fit_scaling, roc_curve
from poolsieve.export import export_run
from poolsieve.networks import (
    GlanceNetwork,
    IndividualNetwork,
    Preprocessing,
    SplitBackbone,
    load_backbone,
)
from poolsieve.networks.trained import TrainedModel, counting_networks, load_model, save_model
from poolsieve.training import make_settings

SIZE = 64
TINY = 32
CASES = {
    "tiny-gated": ("tiny", "gated", (2, 4), "separate", "fp32"),
    "tiny-shared": ("tiny", "gated", (2, 4), "shared", "fp32"),
    "lite0-gated": ("efficientnet-lite0", "gated", (2, 4), "shared", "fp32"),
    "lite0-tree": ("efficientnet-lite0", "tree", (8,), "separate", "fp32"),
    "resnet18-max-fp16": ("resnet18", "max", (2, 3), "shared", "fp16"),
}
AGAIN = ("block8", "block10")
"""Where a tree of EfficientNet-Lite0 merges again: pairs, and all that is left."""


@dataclass(frozen=True)
class MadeBundle:
    """A bundle, and the training run and the networks that it was made of."""

    bundle: Bundle
    run: Path
    model: TrainedModel


def named_backbone(name):
    """Of EfficientNet the weights are installed; others get random ones, and statistics of noise."""
    if name == "tiny":
        return tiny_backbone()
    if name.startswith("efficientnet"):
        return load_backbone(name, input_size=SIZE)
    return drawn_backbone(name, SIZE)


def tiny_backbone():
    """Two convolutions, a network that poolsieve does not know by name."""
    stages = {
        "first": nn.Sequential(nn.Conv2d(3, 6, 3, 4, bias=False), nn.BatchNorm2d(6), nn.ReLU()),
        "second": nn.Sequential(nn.Conv2d(6, 8, 3, 2), nn.ReLU()),
    }
    preprocessing = Preprocessing()
    backbone = SplitBackbone(
        "tiny", stages, nn.Linear(8, 5), cut="first", input_size=TINY, preprocessing=preprocessing
    )
    return draw_weights(backbone).eval()


def networks_on(backbone, merge, pool_sizes, counting="separate"):
    tallies = merge == "gated" and counting == "shared"  # so that there are bundles with and without
    gate = drawn_gate(drawn(16, *backbone.feature_shape, low=0), width=16, tallies=tallies)
    again = AGAIN if merge == "tree" else ()
    networks = counting_networks(backbone, pool_sizes, merge, gate, again=again, shared=counting == "shared")
    model = TrainedModel(backbone, IndividualNetwork(backbone), networks, gate, merge)
    for seed, network in enumerate((model.individual, *model.own_counting.values())):
        draw_weights(network.final, seed=seed, scale=5.0)  # logits of some size, so that differences show
    for network in model.own_counting.values() if tallies else ():
        draw_weights(network.tally)
    glance = GlanceNetwork(backbone)
    draw_weights(glance.final)
    model = replace(model, glance=glance)
    for part in model.parts().values():
        part.eval()
    return model


def random_calibration(pool_sizes):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    scaling = fit_scaling(rng.normal(size=(60, 2)), labels)
    roc = roc_curve(rng.normal(size=60) + labels, labels)
    counting = {
        size: calibrate_counting(rng.normal(size=(80, size + 1)), rng.integers(0, size + 1, 80))
        for size in pool_sizes
    }
    return Calibration(scaling, roc, scaling, roc, counting, scaling, roc)


def write_run(folder, backbone, merge="gated", pool_sizes=(2, 4), counting="separate"):
    """The folder of a training run."""
    folder.mkdir(parents=True)
    settings = make_settings(
        backbone=backbone.name,
        merge=merge,
        again=AGAIN if merge == "tree" else None,
        pool_sizes=pool_sizes,
        counting=counting,
    )
    entries = {"task": "discs", "kind": "classification", "resize_mode": "pad", "training_shapes": None}
    entries["settings"] = settings.to_json()
    save_model(folder, networks_on(backbone, merge, pool_sizes, counting), entries)
    random_calibration(pool_sizes).save(folder / "calibration.json")
    return folder


def make_bundle(root, case):
    """Writes the run and the bundle of a case into a folder."""
    name, merge, pool_sizes, counting, precision = CASES[case]
    run = write_run(root / "run", named_backbone(name), merge, pool_sizes, counting)
    export_run(run, root / case, precision=precision, backbone=named_backbone(name))


def load_made(root, case):
    """What `make_bundle` wrote."""
    model = load_model(root / "run", named_backbone(CASES[case][0]))
    return MadeBundle(load_bundle(root / case), root / "run", model)
