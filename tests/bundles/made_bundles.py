"""Small bundles with random weights, made through the files of a training run."""

import numpy as np
import torch

from poolsieve.bundles import export_run
from poolsieve.networks import Gate, IndividualNetwork, PooledNetwork, load_backbone
from poolsieve.training import make_plan
from poolsieve.training.calibration import Calibration, calibrate_counting, fit_scaling, roc_curve
from poolsieve.training.models import TrainedModel, save_model

SIZE = 64
CASES = {
    "lite0-gated": ("efficientnet-lite0", "gated", (2, 4), "fp32"),
    "lite0-gated-fp16": ("efficientnet-lite0", "gated", (2, 4), "fp16"),
    "resnet18-max": ("resnet18", "max", (3,), "fp32"),
}


def random_model(backbone_name, merge, pool_sizes):
    """Networks whose normalisation has seen random images, so that signals keep their size."""
    torch.manual_seed(0)
    pretrained = backbone_name.startswith("efficientnet")  # whose weights are installed
    backbone = load_backbone(backbone_name, pretrained=pretrained, input_size=SIZE)
    backbone.train().requires_grad_(False)
    images = torch.randint(0, 256, (16, 3, SIZE, SIZE)).float()
    for _ in range(3):
        backbone(backbone.preprocessing(images))
    gate = Gate(backbone.feature_shape[0]).train()
    features = backbone.front(backbone.preprocessing(images))
    gate(features)
    shared = gate if merge == "gated" else None
    counting = {size: PooledNetwork(backbone, size, merge=merge, gate=shared) for size in pool_sizes}
    model = TrainedModel(backbone, IndividualNetwork(backbone), counting, gate, merge)
    with torch.no_grad():
        for part in (model.individual.final, *(network.final for network in counting.values())):
            torch.nn.init.normal_(part.weight, std=0.2)  # logits of some size, so that differences show
    for part in (backbone, *model.parts().values()):
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
    return Calibration(scaling, roc, scaling, roc, counting)


def write_run(folder, backbone_name="efficientnet-lite0", merge="gated", pool_sizes=(2, 4)):
    """The folder of a training run with random weights."""
    model = random_model(backbone_name, merge, pool_sizes)
    folder.mkdir(parents=True)
    plan = make_plan(backbone=backbone_name, merge=merge, pool_sizes=pool_sizes)
    save_model(folder, model, {"task": "discs", "squaring": "pad", "plan": plan.to_json()})
    random_calibration(pool_sizes).save(folder / "calibration.json")
    return folder


def make_bundle(root, case):
    backbone_name, merge, pool_sizes, precision = CASES[case]
    run = root / f"run-{backbone_name}-{merge}"
    if not run.exists():
        write_run(run, backbone_name, merge, pool_sizes)
    return export_run(run, root / case, precision=precision)
