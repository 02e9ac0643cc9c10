"""A bundle in int8 beside the bundle that it was made of: what its networks see, how fast they are, its size.

Both look at the same test images and the same pools of them with OpenVINO; in int8 also with ONNX Runtime,
and with OpenVINO held to AVX2 as on a processor without instructions for int8. Times are ratios within one
run, of graphs that take turns.

    poolsieve bundles quantise firearms firearms.csv --out build/firearms-int8
    python benchmarks/int8.py detection firearms build/firearms-int8 firearms.csv
    python benchmarks/int8.py times firearms build/firearms-int8
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result_files import RESULTS, read_result, write_result
from scipy.special import logsumexp

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.bundles.config import HEAD_GRAPH
from poolsieve.bundles.graph_specs import graph_specs
from poolsieve.engines import open_engine
from poolsieve.engines.engine_checks import noise_images
from poolsieve.export.recording import front_features, labelled_pixels
from poolsieve.images.datasets import load_dataset
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel
from poolsieve.statistics import auc_difference, auc_estimate, proportion
from poolsieve.training.sampling import draw_pools

POOL_SIZE, POOLS = 8, 1000
"""So many pools without a bad image, and as many with one."""
ENGINES = ("openvino", "onnxruntime")
LIMITED = "openvino, AVX2"
ROUNDS = 15
_AVX2 = Path(__file__).parents[1] / "tests" / "avx2_environment.py"
_NAME = "int8"
Outputs = dict[str, NDArray[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("detection", "times", "outputs"))
    parser.add_argument("bundle", help="as it was")
    parser.add_argument("int8", help="made of it; for outputs, the file to write")
    parser.add_argument("data", type=Path, nargs="?", help="labelled images")
    parser.add_argument("--engine", default=ENGINES[0], choices=ENGINES)
    options = parser.parse_args()
    if options.what == "outputs":
        found = outputs(load_bundle(options.bundle), options.engine, options.data)
        np.savez(options.int8, **found)  # type: ignore[arg-type]
        return
    pair = [load_bundle(name) for name in (options.bundle, options.int8)]
    rows = detection(pair, options.data) if options.what == "detection" else times(pair)
    keep(options.what, rows, pair)


def keep(what: str, rows: list[dict[str, Any]], pair: list[Bundle]) -> None:
    """Write rows in place of those of the same kind and bundle, and print them."""
    task = pair[0].config.task
    known = read_result(_NAME)["rows"] if (RESULTS / f"{_NAME}.json").is_file() else []
    kept = [row for row in known if (row["task"], row["measured"]) != (task, what)]
    rows = [{"task": task, "measured": what, **row} for row in rows]
    for row in rows:
        print(", ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    write_result(_NAME, "python benchmarks/int8.py detection|times BUNDLE INT8 [DATA]", [*kept, *rows])


def outputs(bundle: Bundle, engine: str, data: Path) -> Outputs:
    """What an engine says of the test images and of pools of them, and what becomes of the images."""
    config, networks = bundle.config, open_engine(bundle, engine)
    likelihoods = LikelihoodModel(bundle.calibration)
    dataset = load_dataset(data)
    pixels, small, bad = labelled_pixels(bundle, dataset, data, "test", 0, (len(dataset.labels),) * 2)
    features = front_features(networks, config, small if config.shrink > 1 else pixels, Reporter(quiet=True))
    head = networks.head(features)
    single = networks.individual(pixels if config.joined else features).logits
    numbers = np.zeros(POOL_SIZE + 1, dtype=np.int64)
    numbers[:2] = POOLS
    pools = draw_pools(bad.astype(np.int64), numbers, np.random.default_rng(0))
    gate = head.gate if config.merge == "gated" else None
    pooled = networks.pooled(features, gate, pools.members, POOL_SIZE)
    read = pooled.logits.argmax(axis=1) if pooled.counts is None else pooled.counts
    scores = likelihoods.image_scores(single)
    found: Outputs = {
        "bad": bad,
        "individual": single[:, 1] - single[:, 0],
        "individual flags": scores >= 0.5,
        "head": head.logits,
        "head flags": _favours_bad(likelihoods.of_heads(head.logits)),
        "pool counts": pools.counts,
        # The bad image of a pool; pools without one stand for themselves.
        "pool groups": np.where(
            pools.counts > 0,
            np.where(bad[pools.members], pools.members, -1).max(axis=1),
            len(bad) + np.arange(len(pools)),
        ),
        "pools": logsumexp(pooled.logits[:, 1:], axis=1) - pooled.logits[:, 0],
        "pools flags": read > 0,
        "auto flags": _moderated(bundle, engine, dataset, "test"),
    }
    if config.glance is not None:
        logits = networks.glance(features if config.joined else small)
        found |= {"glance": logits, "glance flags": _favours_bad(likelihoods.of_glances(logits))}
    return found


def _favours_bad(log_likelihoods: NDArray[np.float64]) -> NDArray[np.bool_]:
    return log_likelihoods[:, 1] > log_likelihoods[:, 0]


def _moderated(bundle: Bundle, engine: str, dataset: Any, split: str) -> NDArray[np.bool_]:
    """Which images the bundle's plans flag, in the order of the data set."""
    judge = Moderator.load(bundle.path, engine=engine, seed=0)
    files = [dataset.files[position] for position in dataset.of_split(split)]
    return np.array([verdict.status == "flagged" for verdict in judge.moderate(files)])


def detection(pair: list[Bundle], data: Path) -> list[dict[str, Any]]:
    """Each network of both bundles on the same images and pools, and verdicts that differ."""
    found: dict[tuple[str, str], Outputs] = {}
    with tempfile.TemporaryDirectory() as folder:
        for bundle in pair:
            for how in _ways(bundle):
                file = Path(folder) / "outputs.npz"
                command = [sys.executable, __file__, "outputs", str(bundle.path), str(file), str(data)]
                if how == LIMITED:
                    command = [sys.executable, str(_AVX2), *command]
                else:
                    command += ["--engine", how]
                subprocess.run(command, check=True)
                with np.load(file) as arrays:
                    found[bundle.config.precision, how] = dict(arrays)
    rows = []
    before = pair[0].config.precision
    reference = ENGINES[0]
    for (precision, how), values in found.items():
        for network in ("individual", "head", "glance", "pools"):
            if network in values:
                rows.append(_row(network, precision, how, values, found[before, reference]))
    for (precision, how), values in found.items():
        if (precision, how) != (before, reference):
            other = found["int8" if how != reference else before, reference]
            rows.append(_differences(precision, how, values, other))
    return rows


def _ways(bundle: Bundle) -> tuple[str, ...]:
    """In float one engine does: that they agree there, tests show."""
    return (*ENGINES, LIMITED) if bundle.config.precision == "int8" else ENGINES[:1]


def _row(network: str, precision: str, how: str, values: Outputs, before: Outputs) -> dict[str, Any]:
    pools = network == "pools"
    bad = values["pool counts"] > 0 if pools else values["bad"]
    groups = values["pool groups"] if pools else np.arange(len(bad))
    scores, flags = values[network], values[f"{network} flags"]
    found: dict[str, Any] = {"network": network, "precision": precision, "engine": how}
    found |= {"bad": int(bad.sum()), "clear": int((~bad).sum())}
    found |= auc_estimate(scores, bad, groups=groups).columns("auc")
    found |= auc_difference(scores, before[network], bad, groups=groups).columns("auc_gain")
    for name, kind, right in (("sensitivity", bad, flags), ("specificity", ~bad, ~flags)):
        _, cluster = np.unique(groups[kind], return_inverse=True)
        share = proportion(np.bincount(cluster, weights=right[kind]), np.bincount(cluster))
        found |= share.columns(name)
    return found


def _differences(precision: str, how: str, values: Outputs, reference: Outputs) -> dict[str, Any]:
    """Verdicts and readings that differ: of int8 from before, and of other engines from the first."""
    row: dict[str, Any] = {"network": "differing", "precision": precision, "engine": how}
    row |= {"images": len(values["bad"]), "pools": len(values["pools"])}
    for name in ("individual", "head", "glance", "pools", "auto"):
        if f"{name} flags" in values:
            row[f"differing_{name}"] = int((values[f"{name} flags"] != reference[f"{name} flags"]).sum())
    return row


def times(pair: list[Bundle]) -> list[dict[str, Any]]:
    """Time of each graph in int8 over its time before, by engine, and the sizes."""
    rows: list[dict[str, Any]] = []
    sizes = [sum(record.bytes for record in bundle.config.files.values()) for bundle in pair]
    graphs = [sum(bundle.config.files[file].bytes for file in bundle.config.graphs) for bundle in pair]
    rows.append({"what": "bytes of the bundle", "before": sizes[0], "int8": sizes[1]})
    rows.append({"what": "bytes of the graphs", "before": graphs[0], "int8": graphs[1]})
    for engine in ENGINES:
        for file, ratios in _ratios(pair, engine):
            low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
            row = {"what": "time as a ratio", "engine": engine, "graph": file, "rounds": len(ratios)}
            rows.append({**row, "ratio": float(middle), "quarter": float(low), "three_quarters": float(high)})
    return rows


def _ratios(pair: list[Bundle], name: str) -> Iterator[tuple[str, list[float]]]:
    engines = [open_engine(bundle, name) for bundle in pair]
    config = pair[0].config
    images = noise_images(config, 16)
    features = engines[0].front(images).features
    gate = engines[0].head(features).gate if config.merge == "gated" else None
    pools = np.random.default_rng(0).integers(0, len(images), (16, POOL_SIZE))
    for file in graph_specs(config):
        calls = [_call(engine, file, images, features, gate, pools) for engine in engines]
        for call in calls:
            call()
        spent = []
        for _ in range(ROUNDS):
            pace = []
            for call in calls:
                begin = time.process_time()
                call()
                pace.append(time.process_time() - begin)
            spent.append(pace[1] / pace[0])
        yield file, spent


def _call(
    engine: Any, file: str, images: Any, features: Any, gate: Any, pools: NDArray[np.int64]
) -> Callable[[], Any]:
    joined = engine.bundle.config.joined
    if file.startswith("pooled"):
        return lambda: engine.pooled(features, gate, pools, POOL_SIZE)
    if file == HEAD_GRAPH:
        return lambda: engine.head(features)
    if file == "front.onnx":
        return lambda: engine.front(images)
    if file == "glance.onnx":
        return lambda: engine.glance(features if joined else images)
    return lambda: engine.individual(images if joined else features)


if __name__ == "__main__":
    main()
