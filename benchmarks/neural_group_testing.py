"""Neural Group Testing's setting (Liang and Zou 2021): rounds of pools where one image in a thousand is bad.

    python benchmarks/neural_group_testing.py ../shared/data/tasks/firearms.csv

Every firearm of the test split stands once in a pool with seven ordinary images, beside pools of ordinary
images; each pool is judged by itself, as in their algorithms 1 and 2. Figures at a prevalence weigh both
kinds of pools as often as they come. Writes benchmarks/results/neural-group-testing.json; half a minute.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result_files import write_result

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.engines import Engine, FrontFeatures, HeadOutput, NetworkOutput, open_engine
from poolsieve.images.reading import read_image
from poolsieve.images.transforms import plain_view
from poolsieve.schemes import Chunk, CostMeter, DisjointPools, LikelihoodModel, Scheme, Test
from poolsieve.statistics import proportion

POOL, HALF = 8, 4
PREVALENCES = (0.001, 0.01)
METHODS = {
    "individual": Scheme((Test(),), chunk=POOL),
    "two rounds, features anew": Scheme((DisjointPools(POOL), Test(recompute=True)), chunk=POOL),
    "two rounds": Scheme((DisjointPools(POOL), Test()), chunk=POOL),
    "three rounds": Scheme((DisjointPools(POOL), DisjointPools(HALF), Test()), chunk=POOL),
}


class KnownImages:
    """The networks on numbers of images, whose features and outputs are computed once."""

    def __init__(self, engine: Engine, pixels: NDArray[np.uint8]) -> None:
        self._engine = engine
        self._features = engine.front(pixels).features
        self._head = engine.head(self._features)
        self._alone = engine.individual(self._features)
        self._read: dict[bytes, NDArray[np.float32]] = {}

    def front(self, images: NDArray[Any]) -> FrontFeatures:
        """Numbers in place of features."""
        return FrontFeatures(images)

    def head(self, images: NDArray[Any]) -> HeadOutput:
        """What the head says of images."""
        return HeadOutput(images, self._head.logits[images])

    def glance(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Nobody asks for it."""
        raise NotImplementedError("no method here glances")

    def individual(self, images: NDArray[Any]) -> NetworkOutput:
        """What the individual network says of images."""
        return NetworkOutput(self._alone.logits[images], self._alone.vectors[images])

    def pooled(
        self, features: NDArray[Any], gate: NDArray[Any] | None, pools: NDArray[np.integer], pool_size: int
    ) -> NetworkOutput:
        """What is read of pools, those of the same images once."""
        members = np.sort(np.where(pools < 0, -1, features[pools]), axis=1)
        gates = None if gate is None else self._head.gate
        rows = []
        for pool in members:
            if pool.tobytes() not in self._read:
                read = self._engine.pooled(self._features, gates, pool[None], pool_size)
                self._read[pool.tobytes()] = read.logits[0]
            rows.append(self._read[pool.tobytes()])
        return NetworkOutput(np.array(rows), np.empty((len(rows), 0), dtype=np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="table file,label,split")
    parser.add_argument("--bundle", default="firearms", help=f"with pools of {POOL} and of {HALF}")
    parser.add_argument("--ordinary", type=int, default=900, help="ordinary images of the test split")
    parser.add_argument("--clean-pools", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bundle = load_bundle(options.bundle)
    rng = np.random.default_rng(options.seed)
    with options.data.open() as table:
        test = [row for row in csv.DictReader(table) if row["split"] == "test"]
    bad = [row["file"] for row in test if row["label"] == "1"]
    ordinary = rng.permutation([row["file"] for row in test if row["label"] == "0"])[: options.ordinary]
    files = [options.data.parent / name for name in (*bad, *ordinary)]
    side, mode = bundle.config.input_size, bundle.config.resize_mode
    pixels = np.stack([plain_view(read_image(file), side, mode) for file in files])
    networks = KnownImages(open_engine(bundle, "auto"), pixels)
    clear = np.arange(len(bad), len(files))
    pools = [np.array([k, *rng.choice(clear, POOL - 1, replace=False)]) for k in range(len(bad))]
    pools += [rng.choice(clear, POOL, replace=False) for _ in range(options.clean_pools)]
    rows = [
        row
        for name, scheme in METHODS.items()
        for row in measured(name, scheme, networks, bundle, pools, len(bad))
    ]
    write_result(
        "neural-group-testing",
        f"python benchmarks/neural_group_testing.py {options.data.name} --bundle {options.bundle} "
        f"--ordinary {options.ordinary} --clean-pools {options.clean_pools} --seed {options.seed}",
        rows,
        bundle=options.bundle,
        sha256=bundle.hash,
        firearms=len(bad),
        clean_pools=options.clean_pools,
    )
    for row in rows:
        print(row)


def measured(
    name: str, scheme: Scheme, networks: KnownImages, bundle: Bundle, pools: list[NDArray[Any]], bad: int
) -> list[dict[str, Any]]:
    """What a method finds, flags and costs at each prevalence; the first pools hold one firearm, first."""
    likelihoods, gated = LikelihoodModel(bundle.calibration), bundle.config.merge == "gated"
    meters = [CostMeter(bundle.config.cost), CostMeter(bundle.config.cost)]
    flags = []
    for number, pool in enumerate(pools):
        meter = meters[number < bad]
        chunk = Chunk(networks, likelihoods, meter, pool, np.arange(POOL), POOL, gated=gated)
        flags.append(scheme.decide(chunk, np.random.default_rng(number)).flags)
    table = np.array(flags)
    found = proportion(table[:bad, 0].sum(), bad)
    beside, clean = table[:bad, 1:], table[bad:]
    rows = []
    for p in PREVALENCES:
        held = 1 - (1 - p) ** POOL  # pools with a firearm; two in one are left out
        flagged = held * beside.mean() + (1 - held) * clean.mean()
        rows.append(
            {
                "method": name,
                "prevalence": p,
                "sensitivity": found.value,
                "sensitivity_low": found.low,
                "sensitivity_high": found.high,
                "specificity": float(1 - flagged),
                "cost": held * meters[1].share + (1 - held) * meters[0].share,
                "tests_in_clean_pools": meters[0].runs["retests"] / clean.size,
            }
        )
    return rows


if __name__ == "__main__":
    main()
