"""What the shipped bundles find and cost on the test split: the tables of README.md and docs/results.md.

    python benchmarks/shipped_figures.py ../shared/data/tasks [--bundle firearms]

Writes benchmarks/results/shipped-BUNDLE.json and fills the tables from all files there. Mixtures of 20,000
test images, 1% of them bad; parameters are tuned on validation images. Measured is what `moderate` runs on
nearly all processors, the int8 edition. A few minutes for both bundles.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from result_files import write_result
from result_tables import fill_pages

from poolsieve.bundles import load_bundle
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.images.datasets import load_dataset
from poolsieve.progress import Reporter

DATA = {"firearms": "firearms.csv", "cars": "cars_offtopic.csv"}
METHODS = ("individual", "auto", "glance", "cascade", "dorfman", "mip", "bp", "adaptive")
PREVALENCES = (0.01,)


def measure(bundle_name: str, tasks: Path, images: int, seed: int, cache: Path) -> None:
    bundle = load_bundle(bundle_name)
    edition = bundle.edition("int8")
    methods = METHODS if bundle.config.glance is not None else tuple(set(METHODS) - {"glance"})
    plan = EvaluationPlan(PREVALENCES, images, methods=methods, seed=seed, timing_images=0)
    data = tasks / DATA[bundle_name]
    found = evaluate(
        edition, load_dataset(data), plan, cache_dir=cache, reporter=Reporter(), data_name=data.name
    )
    write_result(
        f"shipped-{bundle_name}",
        f"python benchmarks/shipped_figures.py TASKS --bundle {bundle_name} --images {images} --seed {seed}",
        [row.as_record() for row in found.rows],
        bundle=bundle_name,
        sha256=bundle.hash,
        notes=list(found.notes),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", type=Path, help="folder of the tables file,label,split")
    parser.add_argument("--bundle", choices=sorted(DATA), action="append", help="by default both")
    parser.add_argument("--images", type=int, default=20_000, help="draws")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache-dir", type=Path, help="keeps what the networks said, to go on with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.bundle or DATA:
            measure(name, options.tasks, options.images, options.seed, options.cache_dir or Path(folder))
    for page in fill_pages():
        print(f"filled {page}")


if __name__ == "__main__":
    main()
