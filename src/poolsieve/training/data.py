"""The labelled images of a training run: loaded, checked, and looked at before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from poolsieve.bundles.training_shapes import TrainingShapes
from poolsieve.images.datasets import SPLITS, ImageDataset, load_dataset
from poolsieve.progress import ProgressTask, Reporter
from poolsieve.training.sampling import require_enough
from poolsieve.training.settings import TrainingSettings


def load_data(
    data: Path, strict: bool, flagged: Sequence[str], clear: Sequence[str], reporter: Reporter
) -> ImageDataset:
    """Load and describe labelled images; see `load_dataset`."""
    with ExitStack() as shown:
        task: ProgressTask | None = None

        def report(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                reporter.line(f"checking {total} images")
                task = shown.enter_context(reporter.task("checking images", total))
            task.advance(1, f"{task.rate:.0f} images/s")

        dataset = load_dataset(data, strict=strict, flagged=flagged, clear=clear, on_progress=report)
    reporter.line(dataset.describe())
    for message in dataset.messages():
        reporter.line(f"warning: {message}")
    return dataset


def check_data(dataset: ImageDataset, settings: TrainingSettings) -> None:
    """Raise ValueError if a split has too few images for the pools of a run."""
    for split in SPLITS:
        labels = dataset.labels[dataset.of_split(split)]
        bad = int(labels.sum())
        for size in settings.pool_sizes:
            try:
                require_enough(bad, len(labels) - bad, settings.shares_of(size), f"split {split!r}")
            except ValueError as error:
                raise ValueError(f"{error}{dataset.split_advice()}") from None


def training_shapes(dataset: ImageDataset) -> TrainingShapes:
    """Shapes of the images that networks learn from."""
    return TrainingShapes.of(dataset.sizes[dataset.of_split("train")])


def fit_resize_mode(
    settings: TrainingSettings, dataset: ImageDataset, reporter: Reporter
) -> TrainingSettings:
    """Choose how images become square by those that are learnt from, unless the settings say how.

    What is deployed must see images as what is trained did, so this goes into the run and its bundle.
    """
    shapes = training_shapes(dataset)
    if settings.resize_mode is None:
        settings = replace(settings, resize_mode=shapes.fitting)
        how = "stretched to squares" if settings.resize_mode == "stretch" else "padded with zeros to squares"
        reporter.line(f"{shapes.describe()}: photographs will be {how}")
    misfit = shapes.misfit(settings.resize_mode or shapes.fitting)
    if misfit is not None:
        reporter.line(f"warning: {misfit}; leave --pad out")
    return settings
