"""A better glance for a bundle that is there already, without the training run that it came from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.bundles.config import (
    CALIBRATION_FILE,
    CARD_FILE,
    GLANCE_GRAPH,
    PLANS_FILE,
    RECORDINGS_FILE,
    WEIGHTS_FILE,
)
from poolsieve.calibration import fit_scaling, paired, roc_curve
from poolsieve.engines import open_engine
from poolsieve.export.recording import add_files, record_bundle
from poolsieve.images.datasets import SPLITS
from poolsieve.progress import Reporter
from poolsieve.statistics import auc

if TYPE_CHECKING:
    from poolsieve.networks import SplitBackbone

PHASE = "phases/glance"


def distil_glance(
    path_or_name: str | os.PathLike[str],
    data: Path,
    out: Path,
    *,
    work: Path,
    epochs: int = 10,
    learning_rate: float = 5e-4,
    seed: int = 0,
    compile_network: bool = False,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    reporter: Reporter | None = None,
    backbone: SplitBackbone | None = None,
) -> Bundle:
    """Let a bundle's individual network teach its glance, and write a bundle with the glance, recorded anew.

    All other networks stay as they are. The glance of the best epoch is kept: that with the largest AUC on
    validation images. If no epoch is better than the glance that the bundle has, nothing is written.

    Args:
        path_or_name: A bundle with a glance; it is not changed.
        data: The labelled images that it was trained on; see `load_dataset`.
        out: Folder of the new bundle; must not exist.
        work: Folder of checkpoints; an interrupted training goes on there.
        epochs: Epochs of balanced images, each drawn anew.
        learning_rate: Its peak.
        seed: Of the views that are drawn.
        compile_network: Compile what learns; pays from some thousand images on.
        flagged: Names of the class folders to be flagged.
        clear: Names of the class folders that are not.
        reporter: Told how far it is; by default it prints to standard error.
        backbone: The bundle's backbone, if it is none of those that poolsieve knows by name.

    Raises:
        ValueError: The bundle has no glance, is int8 or finds off-topic images, the data do not do, `out`
            exists, or the glance did not get better.
        ImportError: torch is missing.
    """
    from poolsieve.export.graphs import export_glance
    from poolsieve.networks import load_backbone
    from poolsieve.training.data import load_data
    from poolsieve.training.glance_distillation import DistillingLearner, glance_of_bundle
    from poolsieve.training.network_outputs import glance_logits
    from poolsieve.training.phases import run_phase
    from poolsieve.training.recipes import make_settings
    from poolsieve.training.settings import GlanceSettings, Optimization
    from poolsieve.training.split_features import SplitFeatures
    from poolsieve.training.training_folder import TrainingFolder

    reporter = reporter or Reporter()
    bundle = load_bundle(path_or_name)
    config = bundle.config
    if out.exists():
        raise ValueError(f"{out} exists already; give another folder for the new bundle")
    if config.kind != "classification":
        raise ValueError(
            f"{bundle.path} finds off-topic images, whose individual network gives no such logits"
        )
    if config.precision == "int8":
        raise ValueError(f"{bundle.path} is int8; distil the bundle that it was made of, and quantise then")
    if backbone is None:
        backbone = load_backbone(
            config.backbone, cut=config.cut, pretrained=False, input_size=config.input_size
        )
    backbone.eval()
    network = glance_of_bundle(bundle, backbone)
    settings = make_settings(
        backbone=config.backbone,
        cut=config.cut,
        seed=seed,
        resize_mode=config.squaring,
        compile=compile_network,
        glance=GlanceSettings(shrink=network.shrink, stop=network.stop, epochs=epochs),
        optimization=Optimization(learning_rate=learning_rate, pretrained_rate=1.0),
    )
    with TrainingFolder(work) as folder:
        dataset = load_data(data, False, flagged, clear, reporter)
        folder.claim(
            {
                "settings": settings.to_json(),
                "data": {split: dataset.content_hash(split) for split in SPLITS},
                "labels": {split: dataset.label_hash(split) for split in SPLITS},
                "network": {"bundle": bundle.hash},
            }
        )
        features = SplitFeatures(backbone, dataset, settings, work, reporter)
        train, validation = features.images("train"), features.images("val")
        before = auc(glance_logits(network, validation), validation.labels)
        reporter.line(f"the glance that the bundle has: AUC {before:.4f} on {len(validation.labels)} images")
        learner = DistillingLearner(network, open_engine(bundle), train, validation, settings)
        state = run_phase(learner, settings, work / PHASE, reporter, lambda _: None)
        if state.best_score <= before:
            raise ValueError(
                f"no epoch was better than the glance that {bundle.path} has (AUC {before:.4f}); the best "
                f"had {state.best_score:.4f}. Try a lower learning rate or more epochs in another work folder"
            )
        graph = export_glance(network, backbone.preprocessing, config)
        logits = glance_logits(network, validation)
    calibration = replace(
        bundle.calibration,
        glance=fit_scaling(paired(logits), validation.labels),
        glance_roc=roc_curve(logits, validation.labels),
    )
    note = (
        "\n## Glance\n\n"
        f"The glance was trained on, {epochs} epochs, with the individual network as its teacher. Its AUC on "
        f"{len(logits)} validation images, which chose the epoch, is {state.best_score:.4f}; it was "
        f"{before:.4f}. Figures of the glance further up are those of the glance before.\n"
    )
    draft = out.with_name(f".{out.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(bundle.path, draft)
    for name in (RECORDINGS_FILE, PLANS_FILE, WEIGHTS_FILE):  # what is of the glance before
        (draft / name).unlink(missing_ok=True)
    kept = {name: file for name, file in config.files.items() if (draft / name).is_file()}
    calibration.save(draft / CALIBRATION_FILE)
    card = bundle.read(CARD_FILE) + note.encode()
    changed = {
        CALIBRATION_FILE: (draft / CALIBRATION_FILE).read_bytes(),
        CARD_FILE: card,
        GLANCE_GRAPH: graph,
    }
    add_files(draft, replace(config, files=kept), changed)
    record_bundle(draft, data, seed=seed, flagged=flagged, clear=clear, reporter=reporter)
    draft.replace(out)
    return load_bundle(out)
