"""The paper's experiments with given bundles, written into docs/results.md with their figures.

Text and figures come from the same run. What stands outside the two markers of the page is left alone.

    python benchmarks/paper.py my-bundle=data.csv other-bundle=other.csv --images 100000
"""

from __future__ import annotations

import argparse
from pathlib import Path

from poolsieve.bundles import load_bundle
from poolsieve.evaluation.evaluate import evaluate
from poolsieve.evaluation.plan import EvaluationPlan
from poolsieve.evaluation.report_markdown import put_section, section, write_figures
from poolsieve.evaluation.report_page import write_report
from poolsieve.evaluation.simulate import PAPER_PREVALENCES
from poolsieve.images.datasets import load_dataset
from poolsieve.progress import Reporter


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+", metavar="BUNDLE=DATA", help="a bundle and its labelled images")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--tuning-images", type=int)
    parser.add_argument("--prevalence", type=float, action="append")
    parser.add_argument("--timing-images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, default=Path("docs/results.md"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    parser.add_argument("--reports", type=Path, help="also write an HTML report of each bundle below here")
    parser.add_argument("--cache-dir", type=Path, default=Path("runs/evaluation-cache"))
    options = parser.parse_args()
    plan = EvaluationPlan(
        prevalences=tuple(sorted(set(options.prevalence or PAPER_PREVALENCES))),
        images=options.images,
        tuning_images=options.tuning_images,
        timing_images=options.timing_images,
        seed=options.seed,
    )
    plan.check()
    command = (
        f"python benchmarks/paper.py BUNDLE=DATA --images {options.images} "
        f"{''.join(f'--prevalence {p:g} ' for p in options.prevalence or ())}"
        f"{f'--tuning-images {options.tuning_images} ' if options.tuning_images else ''}--seed {options.seed}"
    )
    sections = ["## The paper's experiments\n", f"```\n{command}\n```\n"]
    for pair in options.pairs:
        bundle, equals, data = pair.partition("=")
        if not equals:
            parser.error(f"{pair!r}: write BUNDLE=DATA")
        found = evaluate(
            load_bundle(bundle),
            load_dataset(data),
            plan,
            cache_dir=options.cache_dir,
            reporter=Reporter(),
            data_name=Path(data).name,
        )
        if options.reports is not None:
            write_report(found, options.reports / found.bundle, thumbnails=False)
        sections.append(section(found, write_figures(found, options.figures), options.page.parent))
    put_section(options.page, "\n".join(sections))


if __name__ == "__main__":
    main()
