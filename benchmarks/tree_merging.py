"""Whether merging at several depths counts: a tree against plain maxima at the same cut and at the same cost.

Design 3 of Neural Group Testing (Liang and Zou 2021) merges pairs of images early and what is left later.
This trains networks on firearms at half size, pools of 8, which differ in nothing but where pools are merged,
and reads the same test pools with each:

    python benchmarks/tree_merging.py ../shared/data/tasks/firearms.csv --work runs/tree

Writes benchmarks/results/tree-merging.json, after every network. The same 4,000 training images, 16,000 pools
and blocks that learn for all; half an hour of two cores for each seed, and an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result_files import write_result

from poolsieve.images.datasets import load_dataset
from poolsieve.networks import multiply_adds
from poolsieve.networks.trained import load_model
from poolsieve.progress import Reporter
from poolsieve.statistics import auc_difference, auc_estimate, proportion
from poolsieve.training.network_outputs import badness, read_images, read_pools
from poolsieve.training.run import train
from poolsieve.training.sampling import seeded_pools
from poolsieve.training.settings import TrainingSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.training_folder import SETTINGS_FILE

POOL = 8
ARMS: dict[str, dict[str, Any]] = {
    "tree, block3 and block7": {"cut": "block3", "merge": "tree", "again": ("block7",)},
    "max at block5.depthwise": {"cut": "block5.depthwise", "merge": "max"},
    "max at block3": {"cut": "block3", "merge": "max"},
}
"""The tree costs as much as one maximum at block5.depthwise."""
COMMON = TrainingSettings(
    shrink=2,
    pool_sizes=(POOL,),
    merge="max",
    front="tuned",
    tune_from="block2",
    front_epochs=4,
    individual_epochs=0,
    epochs=4,
    pools_per_epoch=4000,
    views=2,
    validation_pools=500,
    test_pools=200,
    compile=True,
)
TAKEN = {("train", 1): 2000, ("train", 0): 2000, ("val", 1): 300, ("val", 0): 500, ("test", 0): 900}
"""Images of each split and label; all firearms of the test split."""
TEST_POOLS = (1000, 1000, 300)
"""With 0, 1 and 2 firearms."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="table file,label,split")
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs and their caches")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each network")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data = some_images(options.data, options.work / "images.csv")
    rows: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        read, before = {}, rows
        for name, kind in ARMS.items():
            settings = replace(COMMON, seed=seed, **kind)
            read[name] = run(data, options.work, f"{name.replace(' ', '-')}-{seed}", settings)
            rows = before + figures(read, seed)
            write_result(
                "tree-merging",
                f"python benchmarks/tree_merging.py {options.data.name} --work WORK --seeds {seed + 1}",
                rows,
                training_images=sum(number for (split, _), number in TAKEN.items() if split == "train"),
                training_pools=COMMON.epochs * COMMON.pools_per_epoch,
                test_pools=list(TEST_POOLS),
            )
    for row in rows:
        print(row)


def some_images(source: Path, target: Path) -> Path:
    """A table of the first images of each split and label, all of the test split."""
    seen: Counter[tuple[str, int]] = Counter()
    with source.open() as table, target.open("w", newline="") as kept:
        writer = csv.writer(kept)
        writer.writerow(["file", "label", "split"])
        rows = list(csv.DictReader(table))
        for position in np.random.default_rng(0).permutation(len(rows)):
            row = rows[position]
            kind = row["split"], int(row["label"])
            seen[kind] += 1
            if seen[kind] <= TAKEN.get(kind, len(rows)):
                writer.writerow([(source.parent / row["file"]).resolve(), row["label"], row["split"]])
    return target


def run(data: Path, work: Path, name: str, settings: TrainingSettings) -> dict[str, Any]:
    """Train one network, or go on with it, and read the test pools."""
    out, reporter = work / name, Reporter()
    if not (out / "results.json").is_file():
        train(data, out, settings, cache_dir=work / "cache", reporter=reporter)
    model = load_model(out)
    features = SplitFeatures(model.backbone, load_dataset(data), settings, work / "cache", reporter)
    mode = TrainingSettings.from_json(read_settings(out)).resize_mode
    features = replace(features, settings=replace(settings, resize_mode=mode, cut=model.backbone.cut))
    inputs = features.cached("test")
    numbers = np.zeros(POOL + 1, dtype=np.int64)
    numbers[: len(TEST_POOLS)] = TEST_POOLS
    pools = seeded_pools(inputs.labels, numbers, 0, "tree")  # the same pools for all
    logits = read_pools(model.counting[POOL], inputs, pools).logits
    # A clean pool is a group of its own, one with a firearm belongs to those with the same.
    bad, each = inputs.labels[pools.members] == 1, np.arange(len(pools))
    groups = np.where(pools.counts > 0, pools.members[each, bad.argmax(axis=1)], -1 - each)
    cost = multiply_adds(model.backbone, tree=model.tree)
    pooled = cost.pooled or cost.back + cost.final
    return {
        "scores": badness(logits),
        "read": logits.argmax(axis=1),
        "counts": pools.counts,
        "groups": groups,
        "cost": (cost.front + pooled / POOL) / cost.whole,
        "individual": read_images(model.individual, model.gate, inputs).margin,
        "labels": inputs.labels,
    }


def read_settings(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / SETTINGS_FILE).read_text())["settings"]
    return found


def figures(read: dict[str, dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """A row for each network; differences are to the tree, on the same pools."""
    tree = next(name for name in read if name.startswith("tree"))
    rows = []
    for name, one in read.items():
        few = one["counts"] <= 1
        bad, groups = one["counts"][few] == 1, one["groups"][few]
        area = auc_estimate(one["scores"][few], bad, groups=groups)
        row: dict[str, Any] = {
            "seed": seed,
            "network": name,
            "cost": one["cost"],
            "individual_auc": auc_estimate(one["individual"], one["labels"] == 1).value,
            **estimate("auc", area),
        }
        bound = np.quantile(one["scores"][one["counts"] == 0], 0.95)
        found: NDArray[np.bool_] = one["scores"][few][bad] > bound
        tried, won = np.bincount(groups[bad]), np.bincount(groups[bad], found)
        row |= estimate("found_at_95", proportion(won[tried > 0], tried[tried > 0]))
        row["right"] = float((one["read"] == one["counts"]).mean())
        if name != tree:
            other = read[tree]["scores"][few]
            row |= estimate("tree_minus", auc_difference(other, one["scores"][few], bad, groups=groups))
        rows.append(row)
    return rows


def estimate(name: str, value: Any) -> dict[str, float]:
    return {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}


if __name__ == "__main__":
    main()
