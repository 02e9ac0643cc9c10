"""Two bundles as one: cheap networks that look first, and the individual network that tests what they leave.

A front that looks at smaller images costs a fraction of one that looks at whole ones: at half the height and
width a quarter. What it sees is enough to clear most images, alone or in pools (the paper's "combining
pooling with downsampling"); the few that are left are tested by a network that sees them whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.bundles.config import (
    CALIBRATION_FILE,
    CARD_FILE,
    FRONT_GRAPH,
    GLANCE_GRAPH,
    INDIVIDUAL_GRAPH,
    OPTIONAL_FILES,
    OUTLIER_FILE,
    BundleConfig,
    GlanceRecord,
)
from poolsieve.calibration import Calibration, fit_scaling, paired, roc_curve
from poolsieve.engines import open_engine
from poolsieve.export.bundle_writing import add_files, require_packages
from poolsieve.export.card import model_card
from poolsieve.export.recording import labelled_pixels, record_bundle
from poolsieve.images.datasets import load_dataset
from poolsieve.outliers import OutlierReadings
from poolsieve.progress import Reporter

_SAME = ("task", "kind", "input_size", "resize_mode", "feature_width", "precision")
"""What both bundles must have in common."""


def join_bundles(
    whole: str | os.PathLike[str],
    small: str | os.PathLike[str],
    data: Path,
    out: Path,
    *,
    notes: str = "",
    seed: int = 0,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Bundle:
    """Make a bundle whose looks and pools are those of `small` and whose tests are those of `whole`.

    Front, head and counting networks are `small`'s; its individual network becomes the glance, which goes on
    from the same front. The individual network is `whole`'s with its front, from pixels on. All costs are
    shares of one test by it.

    Args:
        whole: A bundle, for its individual network.
        small: A bundle of the same task, such as one trained with `--shrink 2`.
        data: The labelled images that both were trained on; see `load_dataset`. Their validation images
            calibrate the glance, and are recorded.
        out: Folder of the new bundle; must not exist.
        notes: Markdown for the model card.
        seed: Of the pools that are recorded.
        flagged: Names of the class folders to be flagged.
        clear: Names of the class folders that are not.
        reporter: Told how far it is; by default it prints to standard error.

    Raises:
        ValueError: They do not fit together, the data do not do, or `out` exists.
        ImportError: onnx is missing.
    """
    require_packages("joining bundles", ("onnx",))
    reporter = reporter or Reporter()
    tests, looks = load_bundle(whole), load_bundle(small)
    if out.exists():
        raise ValueError(f"{out} exists already; give another folder for the new bundle")
    for bundle in (tests, looks):
        if bundle.config.joined:
            raise ValueError(f"{bundle.path} is made of two bundles already; join those that it was made of")
        if bundle.config.precision == "int8":
            raise ValueError(f"{bundle.path} is int8; join the bundles before that, and quantise then")
    for name in _SAME:
        mine, other = getattr(tests.config, name), getattr(looks.config, name)
        if mine != other:
            raise ValueError(
                f"{name} is {mine} in {tests.path}, but {other} in {looks.path}; train and export both alike"
            )
    config = _joined_config(tests.config, looks.config)
    contents = {
        INDIVIDUAL_GRAPH: _whole_graph(tests.read(FRONT_GRAPH), tests.read(INDIVIDUAL_GRAPH)),
        GLANCE_GRAPH: _glance_graph(looks.read(INDIVIDUAL_GRAPH)),
    }
    outliers = _joined_readings(tests, looks)
    if outliers is not None:
        contents[OUTLIER_FILE] = outliers.to_bytes()
    calibration = replace(
        looks.calibration,
        individual=tests.calibration.individual,
        individual_roc=tests.calibration.individual_roc,
    )
    draft = out.with_name(f".{out.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    card = model_card(config, calibration, None, None, outliers, notes).encode()
    kept = {name: looks.read(name) for name in config.files}
    made = add_files(draft, config, {**kept, **contents, **_calibrated(draft, calibration), CARD_FILE: card})
    reporter.line("calibrating the glance on validation images")
    calibration = _with_glance(made, data, seed, flagged, clear)
    card = model_card(config, calibration, None, None, outliers, notes).encode()
    add_files(draft, made.config, {**_calibrated(draft, calibration), CARD_FILE: card})
    record_bundle(draft, data, seed=seed, flagged=flagged, clear=clear, reporter=reporter)
    draft.replace(out)
    return load_bundle(out)


def _joined_config(tests: BundleConfig, looks: BundleConfig) -> BundleConfig:
    cost = replace(looks.cost, glance=looks.cost.back + looks.cost.final, individual=tests.cost.whole)
    dropped = {*OPTIONAL_FILES, GLANCE_GRAPH}
    files = {name: record for name, record in looks.files.items() if name not in dropped}
    return replace(looks, cost=cost, files=files, glance=GlanceRecord(looks.shrink, None))


def _joined_readings(tests: Bundle, looks: Bundle) -> OutlierReadings | None:
    if tests.outliers is None or looks.outliers is None:
        return None
    return replace(looks.outliers, individual=tests.outliers.individual)


def _calibrated(folder: Path, calibration: Calibration) -> dict[str, bytes]:
    calibration.save(folder / CALIBRATION_FILE)
    return {CALIBRATION_FILE: (folder / CALIBRATION_FILE).read_bytes()}


def _with_glance(
    bundle: Bundle, data: Path, seed: int, flagged: Sequence[str], clear: Sequence[str]
) -> Calibration:
    dataset = load_dataset(data, flagged=flagged, clear=clear)
    pixels, small, bad = labelled_pixels(bundle, dataset, data, "val", seed)
    engine = open_engine(bundle)
    seen = small if bundle.config.shrink > 1 else pixels
    logits = np.concatenate(
        [engine.glance(engine.front(seen[k : k + 64]).features) for k in range(0, len(seen), 64)]
    )
    return replace(
        bundle.calibration,
        glance=fit_scaling(paired(logits), bad.astype(np.int64)),
        glance_roc=roc_curve(logits, bad.astype(np.int64)),
    )


def _whole_graph(front: bytes, back: bytes) -> bytes:
    """Front and individual network as one graph, from pixels to logits and vectors."""
    import onnx
    from onnx import compose

    first, second = (onnx.load_model_from_string(data) for data in (front, back))
    first = compose.add_prefix(first, "front/", rename_inputs=False, rename_outputs=False)
    joined = compose.merge_models(first, second, io_map=[("features", "features")])
    del joined.opset_import[1:]  # both name the same
    onnx.checker.check_model(joined, full_check=True)
    return bytes(joined.SerializeToString(deterministic=True))


def _glance_graph(individual: bytes) -> bytes:
    """An individual network that gives one logit, bad against clear."""
    import onnx
    from onnx import TensorProto, helper

    model: Any = onnx.load_model_from_string(individual)
    graph = model.graph
    for number, name in enumerate(("clear", "bad")):
        graph.initializer.append(helper.make_tensor(f"glance/{name}", TensorProto.INT64, [], [number]))
        graph.node.append(
            helper.make_node("Gather", ["logits", f"glance/{name}"], [f"glance/{name} logit"], axis=1)
        )
    graph.node.append(helper.make_node("Sub", ["glance/bad logit", "glance/clear logit"], ["logit"]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logit", TensorProto.FLOAT, ["N"]))
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))
