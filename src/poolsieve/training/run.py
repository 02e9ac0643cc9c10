"""One training run: from labelled images to all networks of a bundle on one shared front."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from poolsieve.bundles.config import OUTLIER_FILE
from poolsieve.calibration import Calibration, draw_confusion, draw_roc
from poolsieve.files import write_atomically
from poolsieve.folders import DISK_FULL, check_folder
from poolsieve.networks import SplitBackbone
from poolsieve.networks.trained import TrainedModel, save_model
from poolsieve.progress import Reporter, RunClock
from poolsieve.training.checkpoints import PhaseState
from poolsieve.training.data import check_data, fit_resize_mode, load_data, training_shapes
from poolsieve.training.history import write_history
from poolsieve.training.image_learners import GlanceLearner, ImageFrontLearner, IndividualLearner
from poolsieve.training.inputs import CachedInputs
from poolsieve.training.network_outputs import glance_logits
from poolsieve.training.outlier_fitting import fit_outliers
from poolsieve.training.phases import Learner, run_phase
from poolsieve.training.pool_learners import CountingLearner, PoolFrontLearner
from poolsieve.training.run_results import measure, table_lines
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.starting_weights import starting_backbone
from poolsieve.training.teaching import Teacher
from poolsieve.training.training_folder import SETTINGS_FILE, TrainingFolder, describe_run
from poolsieve.training.validation import calibrate, raise_clean_readings
from poolsieve.training.workload import LAST_PART, expected_work, views_part


def train(
    data: Path,
    out: Path,
    settings: TrainingSettings,
    *,
    cache_dir: Path,
    strict: bool = False,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    reporter: Reporter | None = None,
    backbone: SplitBackbone | None = None,
) -> dict[str, Any]:
    """Train everything and write it to `out`; goes on where an interrupted run of these settings stopped.

    Args:
        data: A folder of class folders or a CSV file; see `load_dataset`.
        out: Folder of the run.
        settings: What to do.
        cache_dir: Folder of the feature caches, shared between runs.
        strict: Refuse data with unreadable images.
        flagged: Names of the class folders to be flagged; see `load_dataset`.
        clear: Names of the class folders that are not.
        reporter: Told how far it is; by default it prints to standard error.
        backbone: A backbone of your own, in place of the one that the settings name.

    Returns:
        The figures on the test split, as in `results.json`.

    Raises:
        ValueError: If the data, the settings or an older run in `out` do not fit.
        OSError: If a file is missing or the disk is full.
    """
    reporter = reporter or Reporter()
    try:
        with TrainingFolder(out) as folder:
            check_folder(cache_dir, "--cache-dir")
            if backbone is None:
                backbone = starting_backbone(settings)
            elif settings.input_size not in (None, backbone.input_size):
                raise ValueError(
                    f"input_size={settings.input_size}, but the backbone given takes {backbone.input_size}"
                )
            if backbone.shrink != settings.shrink:
                backbone = backbone.shrunk(settings.shrink)
            backbone.eval().requires_grad_(False)
            settings = replace(settings, backbone=backbone.name, cut=backbone.cut)
            backbone.segment(settings.tune_from, backbone.cut)  # raises if there is nothing to tune
            dataset = load_data(data, strict, flagged, clear, reporter)
            check_data(dataset, settings)
            settings = fit_resize_mode(settings, dataset, reporter)
            teacher = None if settings.taught_by is None else Teacher(settings.taught_by)
            if teacher is not None:
                teacher.check(backbone.input_size, settings.resize_mode)
            folder.claim(describe_run(settings, dataset, backbone, teacher))
            untrained = copy.deepcopy(backbone) if settings.readings == "both" else backbone
            features = SplitFeatures(backbone, dataset, settings, cache_dir, reporter, teacher)
            results = _train_all(features, out, task=data.stem)
            if settings.readings == "both":
                binary = replace(settings, readings="binary")
                features = SplitFeatures(untrained, dataset, binary, cache_dir, reporter, teacher)
                results["binary"] = _train_binary_edition(features, out, data.stem, teacher)
            return results
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise OSError(
            f"the disk is full ({error}): the run in {out} could not be saved. Make room there and run the "
            "same command again; it goes on after the last epoch that was saved"
        ) from error


def _train_binary_edition(
    features: SplitFeatures, out: Path, task: str, teacher: Teacher | None
) -> dict[str, Any]:
    """A run inside of a run that has ended; what does not depend on the readings is taken from that one.

    A front that learnt from pools is learnt anew, as it learnt for networks that count.
    """
    settings, edition = features.settings, out / "binary"
    description = describe_run(settings, features.dataset, features.backbone, teacher)
    if not (edition / SETTINGS_FILE).is_file():  # which is written last
        shutil.rmtree(edition, ignore_errors=True)
        same_front = settings.front == "frozen" or settings.front_learns_from == "images"
        for phase in ("glance", *(("front", "individual") if same_front else ())):
            if (out / "phases" / phase).is_dir():
                shutil.copytree(out / "phases" / phase, edition / "phases" / phase)
        write_atomically(edition / SETTINGS_FILE, (json.dumps(description, indent=2) + "\n").encode())
    features.reporter.line(f"binary networks, in {edition}")
    with TrainingFolder(edition) as folder:
        folder.claim(description)
        return _train_all(features, edition, task=task)


def _train_all(features: SplitFeatures, out: Path, *, task: str) -> dict[str, Any]:
    """Train, calibrate and measure in a folder that is ours."""
    dataset, settings, reporter = features.dataset, features.settings, features.reporter
    torch.manual_seed(settings.seed)
    glance = settings.glance
    model = TrainedModel.new(
        features.backbone,
        settings.pool_sizes,
        merge=settings.merge,
        again=settings.again or (),
        gate_width=settings.gate_width,
        tallies=settings.tallies,
        counting=settings.counting,
        glance=None if glance is None else {"shrink": glance.shrink, "stop": glance.stop},
    )
    reporter.clock = RunClock(expected_work(model, dataset, settings))
    cached = cache(features.cached)
    phases = _Phases(features, out)
    if model.glance is not None:  # first, while the backbone is as it came
        phases.run(GlanceLearner(model.glance, features.images("train"), features.images("val"), settings))
        model.glance.eval().requires_grad_(False)
    if settings.front != "frozen":
        _train_front(model, features, phases)
    validation, test = cached("val"), cached("test")
    if settings.individual_epochs or settings.epochs:
        _train_backs(model, cached("train"), validation, features, phases)
    for size, network in model.own_counting.items():
        if settings.readings == "binary":
            network.read_binary(settings.shares_of(size))
        raised = raise_clean_readings(network, validation, settings)
        if raised:
            reporter.line(f"pools of {size}: bias of count 0 raised by {raised:.3f}")
    entries = {
        "task": task,
        "kind": "classification" if settings.outliers is None else "outlier",
        "resize_mode": settings.resize_mode,
        "training_shapes": asdict(training_shapes(dataset)),
        "settings": settings.to_json(),
    }
    save_model(out, model, entries)
    outliers = None
    if settings.outliers is not None:
        outliers = fit_outliers(model, cached("train"), validation, settings, reporter)
        write_atomically(out / OUTLIER_FILE, outliers.to_bytes())
    reporter.line("calibrating on validation data")
    glances = {
        split: None if model.glance is None else glance_logits(model.glance, features.images(split))
        for split in ("val", "test")
    }
    calibration = calibrate(model, validation, settings, outliers, glances["val"])
    _write_calibration(out, calibration)
    for size, part in calibration.counting.items():
        if part.correlation is None:
            reporter.line(
                f"pools of {size}: too few validation images to see how errors of pools that share an image "
                "go together; calibration.json has null there"
            )
    reporter.line(
        f"measuring on the test split, {settings.test_pools:,} pools of each size; takes some minutes"
    )
    with reporter.part(LAST_PART):
        measured = measure(model, test, settings, outliers, glances["test"])
    results = {**measured, "unreadable_images": len(dataset.unreadable)}
    write_atomically(out / "results.json", (json.dumps(results, indent=2) + "\n").encode())
    for line in table_lines(results):
        reporter.line(line)
    return results


class _Phases:
    """Runs the phases of one run and keeps `history.csv` up to date, and `curves.png` after each phase."""

    def __init__(self, features: SplitFeatures, out: Path) -> None:
        self._settings, self._reporter, self._out = features.settings, features.reporter, out
        self.fresh = out / "fresh"  # where the views of one epoch are while it lasts
        self._history: dict[str, list[dict[str, float]]] = {}

    def folder(self, name: str) -> Path:
        return self._out / "phases" / name

    def run(self, learner: Learner) -> None:
        """Train a learner to the end."""

        def record(state: PhaseState) -> None:
            self._history[learner.name] = state.history
            write_history(self._out, self._history, curves=False)

        folder = self.folder(learner.name)
        with self._reporter.part(learner.name), self._reporter.part(views_part(learner.name)):
            state = run_phase(learner, self._settings, folder, self._reporter, record)
        self._history[learner.name] = state.history
        shutil.rmtree(self.fresh, ignore_errors=True)
        write_history(self._out, self._history)


def _write_calibration(out: Path, calibration: Calibration) -> None:
    calibration.save(out / "calibration.json")
    curves = {
        "individual network": calibration.individual_roc,
        "cheap head": calibration.head_roc,
        "glance": calibration.glance_roc,
    }
    draw_roc({name: curve for name, curve in curves.items() if curve is not None}, out / "roc.png")
    for size, part in calibration.counting.items():
        draw_confusion(part.confusion, out / f"confusion-{size}.png")


def _train_front(model: TrainedModel, features: SplitFeatures, phases: _Phases) -> None:
    """Train the front, or its blocks after `tune_from`, with the networks behind it; leaves it frozen."""
    backbone, settings = model.backbone, features.settings
    stem = backbone.segment(settings.tune_from, backbone.cut)
    learner = ImageFrontLearner if settings.front_learns_from == "images" else PoolFrontLearner
    inputs, validation = features.before_learning("train"), features.before_learning("val")
    phases.run(learner(stem, model, inputs, validation, settings, phases.folder("front")))
    backbone.eval().requires_grad_(False)


def _train_backs(
    model: TrainedModel,
    images: CachedInputs,
    validation: CachedInputs,
    features: SplitFeatures,
    phases: _Phases,
) -> None:
    """Individual network first, then the counting networks, the largest pools first.

    A counting network that has not learnt with the front starts from the individual network's back, which
    knows the bad images already. The gate is learnt with a network that serves all pool sizes, or else with
    the largest pools; smaller ones use it as it is then.
    """
    settings = features.settings
    if settings.individual_epochs:
        # Counting networks that learn no more after the front's phase need their gate as it is.
        learn_gate = settings.epochs > 0 or settings.merge != "gated"
        phases.run(IndividualLearner(model, images, validation, settings, learn_gate=learn_gate))
    if not settings.epochs:
        return
    for size, network in sorted(model.own_counting.items(), reverse=True):
        if settings.front == "frozen" or settings.front_learns_from == "images":
            network.back.load_state_dict(model.individual.back.state_dict())
        fresh = settings.fresh_views > 0
        pools = features.fresh(images, f"counting-{size}", phases.fresh) if fresh else images
        learner = CountingLearner(
            network,
            pools,
            validation,
            settings,
            sizes=settings.pool_sizes if settings.counting == "shared" else (size,),
            learn_gate=size == max(settings.pool_sizes),
        )
        phases.run(learner)
