"""The paper's experiments with given bundles, written into a Markdown page with their figures.

    python benchmarks/paper.py firearms=firearms.csv cars=cars_offtopic.csv --images 20000

Text and figures of a bundle come from the same run and replace what stood between the bundle's two markers;
all else on the page is left alone. What the networks said is kept in --cache-dir: interrupt it and run it
again, and it goes on. Mixtures of all prevalences share most of their pools, so nine cost about twice one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from evaluation_section import put_section, section, write_figures

from poolsieve.bundles import load_bundle
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.evaluation_plan import EvaluationPlan
from poolsieve.evaluation.report_page import write_report
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.images.datasets import load_dataset
from poolsieve.progress import Reporter


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+", metavar="BUNDLE=DATA", help="a bundle and its labelled images")
    parser.add_argument("--images", type=int, default=20_000, help="images of a mixture")
    parser.add_argument("--tuning-images", type=int, help="images of a validation mixture")
    parser.add_argument("--prevalence", type=float, action="append", help="by default the paper's nine")
    parser.add_argument("--method", action="append", help="by default all; see poolsieve evaluate")
    parser.add_argument("--timing-images", type=int, default=500)
    parser.add_argument(
        "--two-objects", type=Path, help="images with two objects, as benchmarks/two_firearms.txt"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--page", type=Path, default=Path("experiments/paper-experiments.md"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--reports", type=Path, help="also write an HTML report of each bundle below here")
    parser.add_argument("--cache-dir", type=Path, default=Path("runs/evaluation-cache"))
    options = parser.parse_args()
    plan = EvaluationPlan(
        prevalences=tuple(sorted(set(options.prevalence or PAPER_PREVALENCES))),
        images=options.images,
        tuning_images=options.tuning_images,
        methods=tuple(options.method) if options.method else None,
        timing_images=options.timing_images,
        seed=options.seed,
        two_objects=options.two_objects,
    )
    plan.check()
    loaded = []
    for pair in options.pairs:
        name, equals, data = pair.partition("=")
        if not equals:
            parser.error(f"{pair!r}: write BUNDLE=DATA")
        loaded.append((load_bundle(name), load_dataset(data), Path(data).name))
    for bundle, dataset, data_name in loaded:
        found = evaluate(
            bundle,
            dataset,
            plan,
            engine=options.engine,
            threads=options.threads,
            cache_dir=options.cache_dir,
            reporter=Reporter(),
            data_name=data_name,
        )
        if options.reports is not None:
            write_report(found, options.reports / found.bundle, thumbnails=False)
        figures = write_figures(found, options.figures)
        text = section(found, figures, options.page.parent)
        put_section(options.page, found.bundle, f"{_command(options, bundle.name, data_name)}\n{text}")


def _command(options: argparse.Namespace, bundle: str, data: str) -> str:
    """The command of one bundle, for the page."""
    words = ["python benchmarks/paper.py", f"{bundle}={data}", f"--images {options.images}"]
    words += [f"--prevalence {prevalence:g}" for prevalence in options.prevalence or ()]
    words += [f"--method {method}" for method in options.method or ()]
    if options.two_objects is not None:
        words.append(f"--two-objects {options.two_objects}")
    if options.tuning_images is not None:
        words.append(f"--tuning-images {options.tuning_images}")
    return f"```\n{' '.join(words)} --timing-images {options.timing_images} --seed {options.seed}\n```"


if __name__ == "__main__":
    main()
