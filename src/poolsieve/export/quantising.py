"""Bundles whose networks compute in whole numbers of 8 bits, made of bundles that do not; needs no torch.

Weights and what lies between convolutions become whole numbers of 8 bits (quantised networks, which the paper
names as future work). How large the numbers of each layer get is seen on training images. The graphs hold
pairs of QuantizeLinear and DequantizeLinear around layers in float, which OpenVINO and ONNX Runtime replace
by layers in whole numbers. Pixels are normalised in float, and so is all that follows the last feature map.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
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
    HEAD_GRAPH,
    INDIVIDUAL_GRAPH,
    OPTIONAL_FILES,
    pooled_graph,
)
from poolsieve.bundles.loading import SHIPPED, edition_of
from poolsieve.calibration import Calibration
from poolsieve.engines import open_engine
from poolsieve.engines.pool_merging import merge_block
from poolsieve.export.bundle_writing import add_edition, add_files, require_packages
from poolsieve.export.known_pools import calibrate_engine
from poolsieve.export.recording import front_features, labelled_pixels, record_bundle
from poolsieve.images.datasets import load_dataset
from poolsieve.images.locations import is_remote
from poolsieve.progress import Reporter
from poolsieve.training.sampling import draw_pools, pool_shares, split_by_shares

LARGEST_LOSS = 0.01
"""Of the AUC of a network on validation data."""
LARGEST_COUNTING_LOSS = 0.03
"""Of the share of pools that are counted exactly, which scatters by about .01 over the pools read."""
_KNOWN_POOLS = 1000
_BATCH = 8
_MEANS = 64
"""Rows, about, over which means of channels are taken; each has hundreds of places."""
_MAPS = ("Conv", "Add", "Clip", "Relu", "MaxPool")
"""Layers on feature maps that engines have in whole numbers."""


def quantise_bundle(
    path_or_name: str | os.PathLike[str],
    data: Path,
    out: Path | None = None,
    *,
    images: int = 200,
    seed: int = 0,
    flagged: Sequence[str] = (),
    clear: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Bundle:
    """Make an int8 bundle of a bundle, with calibration, recordings and plans of its own.

    Args:
        path_or_name: A bundle in fp32 or fp16.
        data: The labelled images that it was trained on; see `load_dataset`. Training images show how large
            the numbers of each layer get, validation images calibrate the outputs and are recorded.
        out: Folder of the new bundle; must not exist. None makes it an edition that the bundle holds.
        images: Training images to look at, half of them bad.
        seed: Of the images and pools that are drawn.
        flagged: Names of the class folders to be flagged.
        clear: Names of the class folders that are not.
        reporter: Told how far it is; by default it prints to standard error.

    Returns:
        The new bundle.

    Raises:
        ValueError: The bundle is int8 already, the data do not do, `out` exists, or the int8 networks see
            less than those that they were made of (see `LARGEST_LOSS`).
        ImportError: onnx or onnxruntime is missing.
    """
    reporter = reporter or Reporter()
    bundle = load_bundle(path_or_name)
    config = bundle.config
    if config.precision == "int8":
        raise ValueError(f"{bundle.path} is int8 already")
    if out is None and (bundle.path.parent == SHIPPED or is_remote(path_or_name)):
        raise ValueError(f"{path_or_name} is not to be changed; give --out, or copy {bundle.path} first")
    if out is None and edition_of(bundle.path) is not None:
        raise ValueError(f"{bundle.path} is an edition, which holds none itself; give --out")
    place = bundle.path / "int8" if out is None else out
    if out is not None and out.exists():
        raise ValueError(f"{out} exists already; give another folder for the new bundle")
    if images < 2:
        raise ValueError(f"images is {images}; give at least 2, a few hundred do")
    require_packages("making an int8 bundle", ("onnx", "onnxruntime"), "train,onnxruntime")
    dataset = load_dataset(data, flagged=flagged, clear=clear)
    seen = labelled_pixels(bundle, dataset, data, "train", seed, ((images + 1) // 2, images // 2))
    inputs = _graph_inputs(bundle, *seen, seed, reporter)
    draft = place.with_name(f".{place.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        kept = set(config.files) - {*config.graphs, *OPTIONAL_FILES}
        contents = {name: bundle.read(name) for name in sorted(kept)}
        with reporter.task("graphs", len(inputs)) as task:
            for file, rows in inputs.items():
                contents[file] = quantise_graph(bundle.read(file), rows)
                task.advance(1, file)
        made = add_files(draft, replace(config, precision="int8", files={}), contents)
        pixels, small, bad = labelled_pixels(bundle, dataset, data, "val", seed)
        reporter.line(f"calibrating on {len(bad)} validation images, before and after")
        before, after = (
            calibrate_engine(
                open_engine(part), pixels, small, bad, pools=_KNOWN_POOLS, seed=seed, reporter=reporter
            )
            for part in (bundle, made)
        )
        del pixels, small
        seen_before, seen_after = _figures(before), _figures(after)
        for name, value in seen_before.items():
            reporter.line(f"{name}: {value:.4f}, in int8 {seen_after[name]:.4f}")
            limit = LARGEST_LOSS if name.startswith("AUC") else LARGEST_COUNTING_LOSS
            if seen_after[name] < value - limit:
                raise ValueError(
                    f"{name} of {bundle.path} falls from {value:.4f} to {seen_after[name]:.4f} in int8, by "
                    f"more than {limit}; use the bundle as it is, or try other or more images"
                )
        after.save(draft / CALIBRATION_FILE)
        note = _note(bundle, len(seen[0]), len(bad), seen_before, seen_after)
        card = bundle.read(CARD_FILE) + note.encode()
        add_files(
            draft,
            made.config,
            {CALIBRATION_FILE: (draft / CALIBRATION_FILE).read_bytes(), CARD_FILE: card},
        )
        record_bundle(draft, data, seed=seed, flagged=flagged, clear=clear, reporter=reporter)
        if out is None:
            return add_edition(bundle.path, "int8", draft)
        draft.replace(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return load_bundle(out)


def quantise_graph(graph: bytes, rows: np.ndarray) -> bytes:
    """A graph in int8.

    Args:
        graph: An ONNX model in float with one input.
        rows: What the input is like.  # (rows, …)
    """
    import onnx
    from onnxruntime import quantization  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as folder:
        model = _folded(graph, Path(folder) / "folded.onnx")
        target = Path(folder) / "int8.onnx"
        quantization.quantize_static(
            copy.deepcopy(model),  # its weights are taken out
            target,
            _Batches(model.graph.input[0].name, rows),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            reduce_range=True,  # of weights: without VNNI, sums of two products would leave 16 bits
            op_types_to_quantize=list(_MAPS),
            nodes_to_exclude=_not_on_maps(model.graph),
            calibrate_method=quantization.CalibrationMethod.MinMax,
            extra_options={"TensorQuantOverrides": _whole_range(model.graph)},
        )
        means_of = rows[:: max(1, len(rows) // _MEANS)]
        return _finished(_with_means(model, onnx.load_model(target), means_of))


class _Batches:
    """Gives a graph's input to ONNX Runtime's quantiser, some rows at a time."""

    def __init__(self, name: str, rows: np.ndarray) -> None:
        self._batches: Iterator[dict[str, np.ndarray]] = (
            {name: rows[k : k + _BATCH]} for k in range(0, len(rows), _BATCH)
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next rows; None after the last."""
        return next(self._batches, None)


def _folded(graph: bytes, file: Path) -> Any:
    """The graph with weights in float32, and normalisation and padding inside of convolutions."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = os.fspath(file)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    model = onnx.load_model(file)
    versions = {one.domain: one for one in model.opset_import}  # joined graphs may name one twice
    del model.opset_import[:]
    model.opset_import.extend(versions.values())
    for k, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type} {k}"  # nodes are left out by name
    # What the quantiser's own preparation would say of it; else it asks for that.
    onnx.helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    return model


def _not_on_maps(graph: Any) -> list[str]:
    """Additions and activations that do not follow a convolution, such as of tallies and pixels."""
    maps: set[str] = set()
    others = []
    for node in graph.node:  # each comes after those that it takes from
        if node.op_type == "Conv" or (node.op_type in _MAPS and _follows(node, maps)):
            maps.update(node.output)
        elif node.op_type in _MAPS:
            others.append(node.name)
    return others


def _follows(node: Any, maps: set[str]) -> bool:
    taken = node.input if node.op_type == "Add" else node.input[:1]
    return all(name in maps for name in taken)


def _whole_range(graph: Any) -> dict[str, list[dict[str, Any]]]:
    """Weights of depthwise convolutions, whose products are not summed in pairs: they keep all 8 bits."""
    depthwise = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 4 and tensor.dims[1] == 1}
    taken = (node.input[1] for node in graph.node if node.op_type == "Conv")
    return {name: [{"axis": 0, "reduce_range": False}] for name in taken if name in depthwise}


def _with_means(floating: Any, model: Any, rows: np.ndarray) -> Any:
    """The quantised model with biases by which channels keep their means although weights are rounded.

    What rounded weights add to the mean of a channel is their error times the mean of what the convolution
    takes (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019,
    section 4.2; here the means are those of images, borders not counted apart).
    """
    from onnx import numpy_helper

    before, after = ({tensor.name: tensor for tensor in part.graph.initializer} for part in (floating, model))
    made_by = {name: node for node in model.graph.node for name in node.output}
    known = {node.name: node for node in floating.graph.node if node.op_type == "Conv"}
    means = _channel_means(floating, sorted({node.input[0] for node in known.values()}), rows)
    for node in model.graph.node:
        if node.op_type != "Conv":
            continue
        rounded, steps = (numpy_helper.to_array(after[name]) for name in made_by[node.input[1]].input[:2])
        weights = numpy_helper.to_array(before[known[node.name].input[1]])
        error = (rounded * steps.reshape(-1, 1, 1, 1) - weights).sum(
            axis=(2, 3)
        )  # (outputs, inputs / groups)
        mean, (outputs, width) = means[known[node.name].input[0]], error.shape
        groups = len(mean) // width
        shift = np.einsum("goi,gi->go", error.reshape(groups, -1, width), mean.reshape(groups, width))
        stored, scale = (after[name] for name in made_by[node.input[2]].input[:2])
        biases = numpy_helper.to_array(stored) - np.rint(
            shift.reshape(outputs) / numpy_helper.to_array(scale)
        )
        stored.CopyFrom(numpy_helper.from_array(biases.astype(np.int32), stored.name))
    return model


def _channel_means(model: Any, names: Sequence[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Means of feature maps inside of a graph over rows and places, by name.  # (channels,)."""
    import onnx
    import onnxruntime

    part = copy.deepcopy(model)
    given = part.graph.input[0].name
    del part.graph.output[:]
    inside = [name for name in names if name != given]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        part.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    sums: dict[str, np.ndarray] = {}
    for batch in (rows[k : k + _BATCH] for k in range(0, len(rows), _BATCH)):
        found = dict(zip(inside, session.run(inside, {given: batch}), strict=True))
        for name, values in {**found, given: batch}.items():
            if name in names:
                sums[name] = sums.get(name, 0.0) + values.mean(axis=(2, 3), dtype=np.float64).sum(axis=0)
    return {name: total / len(rows) for name, total in sums.items()}


def _finished(model: Any) -> bytes:
    import onnx

    del model.metadata_props[:]
    used = {node.domain for node in model.graph.node}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    del model.graph.value_info[:]
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _graph_inputs(
    bundle: Bundle,
    pixels: np.ndarray,
    small: np.ndarray,
    bad: np.ndarray,
    seed: int,
    reporter: Reporter,
) -> dict[str, np.ndarray]:
    """What the graphs of a bundle are given of images, by file."""
    config, engine = bundle.config, open_engine(bundle)
    fronted = small if config.shrink > 1 else pixels
    features = front_features(engine, config, fronted, reporter)
    gate = engine.head(features).gate if config.merge == "gated" else None
    inputs = {
        FRONT_GRAPH: fronted,
        HEAD_GRAPH: features,
        INDIVIDUAL_GRAPH: pixels if config.joined else features,
    }
    for network in config.network_sizes:
        sizes = config.pool_sizes if config.counting == "shared" else (network,)
        blocks = []
        for size in sizes:
            numbers = split_by_shares(max(size + 1, len(bad) // 4), pool_shares(size))
            drawn = draw_pools(bad.astype(np.int64), numbers, np.random.default_rng([seed, size]))
            blocks.append(merge_block(features, gate, drawn.members))
        inputs[pooled_graph(network)] = np.concatenate(blocks)
    if config.glance is not None:
        inputs[GLANCE_GRAPH] = features if config.joined else small
    return inputs


def _figures(calibration: Calibration) -> dict[str, float]:
    """How well networks see, by what is measured."""
    rocs = {
        "AUC of the individual network": calibration.individual_roc,
        "AUC of the head": calibration.head_roc,
        "AUC of the glance": calibration.glance_roc,
    }
    figures = {name: roc.auc for name, roc in rocs.items() if roc is not None}
    for size, part in calibration.counting.items():
        pools = np.array(part.confusion)
        figures[f"share of pools of {size} counted exactly"] = float(np.trace(pools) / pools.sum())
    return figures


def _note(
    bundle: Bundle, images: int, validation: int, before: dict[str, float], after: dict[str, float]
) -> str:
    rows = [f"| {name} | {value:.4f} | {after[name]:.4f} |" for name, value in before.items()]
    lines = [
        "",
        "## int8",
        "",
        f"Networks compute in whole numbers of 8 bits. They were made of the bundle `{bundle.name}` "
        f"(hash {bundle.hash[:16]}), in {bundle.config.precision}, with {images} training images; figures "
        "further up are those of that bundle. "
        f"On {validation} validation images, and {_KNOWN_POOLS} pools of them of each size:",
        "",
        f"| | {bundle.config.precision} | int8 |",
        "|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)
