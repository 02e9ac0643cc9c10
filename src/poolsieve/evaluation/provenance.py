"""What a report says of how an evaluation was run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from poolsieve._version import __version__
from poolsieve.images.datasets import ImageDataset
from poolsieve.progress import duration

if TYPE_CHECKING:
    from poolsieve.bundles import Bundle
    from poolsieve.evaluation.evaluation_plan import EvaluationPlan
    from poolsieve.evaluation.results import Wording


def describe_data(
    dataset: ImageDataset,
    bundle: Bundle,
    plan: EvaluationPlan,
    words: Wording,
    *,
    half: Bundle | None,
    auc: float,
    kinds: Mapping[str, float],
    why_no_half: str,
) -> list[str]:
    """What a reader must know of the images and of how they were looked at.

    `half` is the bundle at half the resolution, if it was used, and `why_no_half` why it was not, if somebody
    asked; `auc` is that of the individual network where it was measured, `kinds` those of other scores.
    """
    labels = dataset.labels[dataset.of_split(plan.split)]
    notes = [
        f"The {plan.images:,} images at each prevalence are draws from {int(labels.sum()):,} different "
        f"{words.bad} and {int((labels == 0).sum()):,} different {words.ordinary} images of split "
        f"{plan.split}. Intervals come from these different images and not from the draws. Mixtures of "
        "different prevalences share as many images and pools as they can.",
        f"On these images the individual network has AUC {auc:.4f}"
        + "".join(f"; {kind} {value:.4f}" for kind, value in kinds.items())
        + ".",
    ]
    if plan.tuning_split is None:
        notes.append(
            "Every image is a test image, so there was nothing to tune on: methods have their defaults, as "
            "in poolsieve moderate, for the prevalence of the mixture; plans are made from the bundle's own "
            "recordings. Methods that were tuned might do better on images like these."
        )
    if bundle.outliers is not None:
        alone = plan.by_density or bundle.outliers.individual.by_density
        notes.append(
            "Outputs are read by the density of feature vectors alone, as in the paper."
            if alone
            else "Outputs are read by the density of feature vectors and by what the networks themselves say."
        )
    if why_no_half:
        notes.append(f"Nothing was tried at half size: {why_no_half}.")
    if half is not None:
        small = half.config
        share = small.cost.whole / bundle.config.cost.whole
        notes.append(
            f"At half size the bundle's own weights run on images of {small.input_size} px, which costs "
            f"{share:.1%} of a full test, and are calibrated anew on split {plan.tuning_split}. They were "
            f"trained at {bundle.config.input_size} px; networks trained at half size would do better."
            + (
                ""
                if half.outliers is None
                else " Densities were fitted anew to on-topic images of split train."
            )
        )
    return [*notes, *dataset.messages()]


def describe_run(
    bundle: Bundle,
    dataset: ImageDataset,
    plan: EvaluationPlan,
    *,
    engine: str,
    data_name: str,
    seconds: float,
) -> dict[str, str]:
    """How everything was run: all that is needed to run it again."""
    packages = {"numpy": "numpy", "numba": "numba", engine: engine}
    versions = [f"poolsieve {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(package)}" for name, package in packages.items()]
    config = bundle.config
    return {
        "bundle": f"{bundle.name}, task {config.task}, sha256 of config.json {bundle.hash}",
        "network": f"{config.backbone} at {config.input_size} px, front {config.cost.front_share:.1%} of "
        f"{config.cost.whole / 1e6:.1f} million multiply-adds, pools of "
        f"{', '.join(map(str, config.pool_sizes))}",
        "data": f"{data_name or 'unnamed'}; {dataset.describe()}",
        "measured on": f"split {plan.split}, sha256 of contents {dataset.content_hash(plan.split)}",
        "tuned on": "nothing"
        if plan.tuning_split is None
        else f"split {plan.tuning_split}, sha256 of contents {dataset.content_hash(plan.tuning_split)}, "
        f"{plan.tuning_draws:,} images at each prevalence",
        "images": f"{plan.images:,} at each prevalence",
        "seed": str(plan.seed),
        "engine": engine,
        "versions": ", ".join(versions),
        "machine": _machine(),
        "finished": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, after {duration(seconds)}",
    }


def _machine() -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} processors, {platform.system()}"
