"""Making a bundle of a training run. Importing this needs no torch, exporting does."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolsieve._version import __version__
from poolsieve.bundles.config import (
    CALIBRATION_FILE,
    CARD_FILE,
    CONFIG_FILE,
    FORMAT_VERSION,
    OUTLIER_FILE,
    WEIGHTS_FILE,
    BundleConfig,
    Edition,
    FileRecord,
    GlanceRecord,
    Kind,
    WeightPrecision,
    edition_file,
    read_training_shapes,
)
from poolsieve.bundles.loading import Bundle, edition_of, load_bundle, read_config
from poolsieve.bundles.training_shapes import TrainingShapes
from poolsieve.calibration import Calibration
from poolsieve.export.card import model_card
from poolsieve.files import write_atomically
from poolsieve.outliers import OutlierReadings
from poolsieve.view_settings import ResizeMode

if TYPE_CHECKING:
    from poolsieve.networks import SplitBackbone
    from poolsieve.networks.trained import TrainedModel

RESULTS_FILE = "results.json"
_LOG = logging.getLogger(__name__)


def export_run(
    run_dir: str | os.PathLike[str],
    out_dir: str | os.PathLike[str],
    *,
    precision: WeightPrecision = "fp32",
    weights: bool = True,
    notes: str = "",
    backbone: SplitBackbone | None = None,
) -> Bundle:
    """Make a bundle of a finished training run.

    Args:
        run_dir: Folder of the run, as `poolsieve train` wrote it.
        out_dir: Folder of the bundle; must not exist, or be empty. It appears whole or not at all.
        precision: How weights are stored: "fp16" halves the files, and networks still compute in fp32.
        weights: Put the weights in too, to go on training with and for the torch engine; they take as much
            room as all graphs together.
        notes: Markdown that goes into the model card: sources of the data, known weaknesses, licence.
        backbone: The network that was trained, if it was none of those that poolsieve knows by name; its
            front is overwritten.

    Returns:
        The bundle, loaded and checked.

    Raises:
        ValueError: The run is not finished or not a run, or `out_dir` is in use.
        ImportError: torch or onnx is missing.
    """
    require_packages("exporting a bundle", ("torch", "onnx"))
    from poolsieve.networks import load_backbone
    from poolsieve.networks.trained import load_model
    from poolsieve.training.training_folder import SETTINGS_FILE

    run = Path(run_dir)
    if (run / SETTINGS_FILE).is_file() and not (run / CONFIG_FILE).is_file():
        raise ValueError(
            f"the run in {run} is not finished; the same `poolsieve train` command goes on with it"
        )
    config = _read_json(run, CONFIG_FILE)
    needed = {
        "task",
        "kind",
        "resize_mode",
        "training_shapes",
        "settings",
        "backbone",
        "cut",
        "input_size",
        "shrink",
    }
    missing = needed - set(config)
    if missing:
        raise ValueError(
            f"{run / CONFIG_FILE} is not of a training run: it lacks {', '.join(sorted(missing))}"
        )
    if not (run / CALIBRATION_FILE).is_file():
        raise ValueError(f"{run} has no {CALIBRATION_FILE}: finish the run with `poolsieve train` first")
    both = config["settings"].get("readings") == "both"
    if both and not (run / "binary" / CALIBRATION_FILE).is_file():
        raise ValueError(
            f"the run in {run} is not finished; the same `poolsieve train` command goes on with it"
        )
    if backbone is None:
        backbone = load_backbone(
            config["backbone"],
            cut=config["cut"],
            pretrained=False,
            input_size=config["input_size"],
            shrink=config["shrink"],
        )
    target = _free_folder(out_dir)
    editions: dict[Edition, Path] = {}
    with ExitStack() as held:
        if both:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = held.enter_context(_draft_of(target))
            editions["binary"] = draft / "binary"
            stored: dict[str, Any] = {"precision": precision, "weights": weights, "notes": notes}
            export_run(run / "binary", editions["binary"], backbone=backbone, **stored)
        return save_bundle(
            target,
            load_model(run, backbone),
            Calibration.load(run / CALIBRATION_FILE),
            task=config["task"],
            resize_mode=config["resize_mode"],
            shares=config["settings"]["shares"],
            results=_read_json(run, RESULTS_FILE) if (run / RESULTS_FILE).is_file() else None,
            settings=config["settings"],
            outliers=_read_outliers(run) if config["kind"] == "outlier" else None,
            shapes=read_training_shapes(config),
            precision=precision,
            weights=weights,
            notes=notes,
            editions=editions,
        )


def save_bundle(
    out_dir: str | os.PathLike[str],
    model: TrainedModel,
    calibration: Calibration,
    *,
    task: str,
    resize_mode: ResizeMode,
    shares: Sequence[float] | None = None,
    results: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    outliers: OutlierReadings | None = None,
    shapes: TrainingShapes | None = None,
    precision: WeightPrecision = "fp32",
    weights: bool = True,
    notes: str = "",
    editions: Mapping[Edition, Path] | None = None,
) -> Bundle:
    """Write networks and their calibration as a bundle.

    Args:
        out_dir: Folder of the bundle; must not exist, or be empty. It appears whole or not at all.
        model: The networks.
        calibration: What their outputs are worth.
        task: What is looked for.
        resize_mode: How images were made square.
        shares: Shares of training pools with 0 … r bad images for the largest size; None for the paper's.
        results: Figures on test data for the model card, as in a run's `results.json`.
        settings: Settings of the training for the model card.
        outliers: How outputs are read where off-topic images are told by the density of features.
        shapes: Shapes of the training images, if known; a warning is logged if `resize_mode` does not suit.
        precision: How weights are stored.
        weights: Whether to put in the weights themselves beside the graphs.
        notes: Markdown for the model card.
        editions: Bundles on the same disk that are moved into this one.
    """
    require_packages("exporting a bundle", ("torch", "onnx"))
    from poolsieve.export.graphs import export_graphs, weight_file, with_stored_precision

    target = _free_folder(out_dir)
    model = with_stored_precision(model, precision)
    kind: Kind = "classification" if outliers is None else "outlier"
    config = _describe(model, task, resize_mode, shares, precision)
    config = replace(config, kind=kind, training_shapes=shapes)
    if settings is not None and settings.get("readings") == "binary":
        config = replace(config, readings="binary")
    if shapes is not None and (misfit := shapes.misfit(resize_mode)):
        _LOG.warning("%s", misfit)
    contents = export_graphs(model, config, precision)
    if weights:
        contents[WEIGHTS_FILE] = weight_file(model, precision)
    if outliers is not None:
        contents[OUTLIER_FILE] = outliers.to_bytes()
    contents[CARD_FILE] = model_card(config, calibration, results, settings, outliers, notes).encode()

    target.parent.mkdir(parents=True, exist_ok=True)
    with _draft_of(target) as folder:
        draft = folder / target.name
        draft.mkdir()
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        calibration.save(draft / CALIBRATION_FILE)
        contents[CALIBRATION_FILE] = (draft / CALIBRATION_FILE).read_bytes()
        for edition, made in (editions or {}).items():
            made.replace(draft / edition)
            contents[edition_file(edition)] = (draft / edition_file(edition)).read_bytes()
        (draft / CONFIG_FILE).write_bytes(config_with(config, contents))
        bundle = load_bundle(draft)
        if target.exists():
            target.rmdir()
        draft.replace(target)
    return replace(bundle, path=target)


def _free_folder(out_dir: str | os.PathLike[str]) -> Path:
    target = Path(out_dir).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} exists already and is not an empty folder; give another one")
    return target


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """A folder beside a bundle that is to be, for drafts of it."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as folder:
        yield Path(folder)


def config_with(config: BundleConfig, contents: Mapping[str, bytes]) -> bytes:
    """The content of `config.json` once these files are in the bundle, or others than before."""
    new = {name: FileRecord(hashlib.sha256(data).hexdigest(), len(data)) for name, data in contents.items()}
    files = {name: dict(vars(record)) for name, record in sorted({**config.files, **new}.items())}
    return (json.dumps({**config.to_json(), "files": files}, indent=2) + "\n").encode()


def add_files(folder: Path, config: BundleConfig, contents: Mapping[str, bytes]) -> Bundle:
    """Add files to a bundle, or replace them; its hash changes, and that of a bundle that holds it."""
    edition = edition_of(folder)
    if edition is not None:
        _enter_edition(folder.parent, edition, None)
    for name, data in contents.items():
        write_atomically(folder / name, data)
    changed = config_with(config, contents)
    write_atomically(folder / CONFIG_FILE, changed)
    if edition is not None:
        _enter_edition(folder.parent, edition, changed)
    return load_bundle(folder)


def add_edition(bundle: Path, edition: Edition, folder: Path) -> Bundle:
    """Move a bundle into another one as an edition of it; an edition that was there is replaced.

    Args:
        bundle: The bundle, which is changed.
        edition: Which edition it becomes.
        folder: The bundle to be moved, on the same disk.

    Returns:
        The edition.
    """
    _enter_edition(bundle, edition, None)
    shutil.rmtree(bundle / edition, ignore_errors=True)
    folder.replace(bundle / edition)
    _enter_edition(bundle, edition, (bundle / edition_file(edition)).read_bytes())
    return load_bundle(bundle).edition(edition)


def _enter_edition(bundle: Path, edition: Edition, config: bytes | None) -> None:
    """Write the configuration of a bundle with an edition, or while that changes without it.

    So a bundle is whole at any moment, with the edition or without.
    """
    before, file = read_config(bundle), edition_file(edition)
    files = {name: record for name, record in before.files.items() if name != file}
    after = config_with(replace(before, files=files), {} if config is None else {file: config})
    write_atomically(bundle / CONFIG_FILE, after)


def require_packages(what: str, packages: Sequence[str], extras: str = "train") -> None:
    """Raise ImportError, with what to install, if a package is missing that something needs."""
    for package in packages:
        try:
            __import__(package)
        except ImportError as error:
            raise ImportError(f"{what} needs {package}: pip install 'poolsieve[{extras}]'") from error


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    file = folder / name
    if not file.is_file():
        raise ValueError(f"{folder} is no training run: it has no {name}")
    try:
        values = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{file}: holds no object")
    return values


def _read_outliers(run: Path) -> OutlierReadings:
    file = run / OUTLIER_FILE
    if not file.is_file():
        raise ValueError(f"{run} has no {OUTLIER_FILE}: finish the run with `poolsieve train` first")
    try:
        return OutlierReadings.from_bytes(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _describe(
    model: TrainedModel,
    task: str,
    resize_mode: ResizeMode,
    shares: Sequence[float] | None,
    precision: WeightPrecision,
) -> BundleConfig:
    """The configuration without the files."""
    import onnx
    import torch

    from poolsieve.export.graphs import OPSET
    from poolsieve.networks import multiply_adds
    from poolsieve.training.sampling import pool_shares

    backbone, sizes = model.backbone, tuple(sorted(model.counting))
    cost = multiply_adds(backbone, model.gate, model.glance, model.tree)
    final = 2 * backbone.feature_width  # the individual network ends in two outputs and not in the backbone's
    pooled = cost.pooled and cost.pooled - cost.final + final
    glance = None if model.glance is None else GlanceRecord(model.glance.shrink, model.glance.stop)
    priors = {size: tuple(pool_shares(size).tolist()) for size in sizes}
    if shares is not None:
        priors[sizes[-1]] = tuple(map(float, shares))
    return BundleConfig(
        format_version=FORMAT_VERSION,
        task=task,
        kind="classification",
        backbone=backbone.name,
        cut=backbone.cut,
        merge=model.merge,
        input_size=backbone.input_size,
        resize_mode=resize_mode,
        mean=backbone.preprocessing.mean,
        scale=backbone.preprocessing.scale,
        feature_shape=backbone.feature_shape,
        feature_width=backbone.feature_width,
        gate_width=model.gate.width,
        pool_sizes=sizes,
        precision=precision,
        cost=replace(cost, final=final, pooled=pooled),
        training_prior=priors,
        files={},
        versions={
            "poolsieve": __version__,
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "opset": str(OPSET),
        },
        glance=glance,
        counting=model.sharing,
        tallies=model.gate.tallies,
        training_shapes=None,
        shrink=backbone.shrink,
        again=model.again,
    )
