"""Pooled outlier detection on real images, by the paper's reading and by the bundle's own.

    python benchmarks/outliers.py BUNDLE DATA.csv [--images 10000] [--out table.md]

Two evaluations (docs/evaluating.md) of the same networks: once by the density alone with the paper's
histogram, and once as the bundle reads, which may also listen to the networks' own outputs. Each gives the
confusion of counts on validation and test pools, and all methods at every prevalence, Downsample included.
Both share what the networks said of images and pools, which is kept in --cache-dir.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from evaluation_section import section

from poolsieve.bundles import load_bundle
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.images.datasets import load_dataset
from poolsieve.progress import Reporter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=int, default=10_000, help="images of a mixture")
    parser.add_argument("--tuning-images", type=int, help="images of a validation mixture")
    parser.add_argument("--prevalence", type=float, action="append", help="by default the paper's nine")
    parser.add_argument("--method", action="append", help="by default all; see poolsieve evaluate")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--cache-dir", type=Path, default=Path("runs/evaluation-cache"))
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    given = parser.parse_args()
    bundle, dataset = load_bundle(given.bundle), load_dataset(given.data)
    if bundle.outliers is None:
        parser.error(f"{given.bundle} is no outlier bundle; train one with --task outlier")
    readings = {"the paper's reading, density alone": True}
    if not bundle.outliers.individual.by_density:
        readings["the bundle's reading"] = False
    text = ""
    for name, by_density in readings.items():
        plan = EvaluationPlan(
            prevalences=tuple(sorted(set(given.prevalence or PAPER_PREVALENCES))),
            images=given.images,
            tuning_images=given.tuning_images,
            methods=tuple(given.method) if given.method else None,
            timing_images=0,
            by_density=by_density,
        )
        found = evaluate(
            bundle,
            dataset,
            plan,
            engine=given.engine,
            threads=given.threads,
            cache_dir=given.cache_dir,
            reporter=Reporter(),
            data_name=given.data.name,
        )
        text += f"## {name.capitalize()}\n\n{section(found, {}, Path())}\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
