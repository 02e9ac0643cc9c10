"""Networks that the paper compares, trained alike, exported and evaluated: one run a name.

    python benchmarks/paper_networks.py gated gated-binary --data ../shared/data/tasks --work runs/paper
    python benchmarks/paper_networks.py --list

A run goes on where it was interrupted: training after its last epoch, the evaluation after its last image or
pool. Runs share cached features; those at half size share one front and individual network, too, so that
only what reads pools differs. What an evaluation found is in WORK/NAME/report.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from poolsieve.bundles import load_bundle
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.evaluation_plan import PAPER_PREVALENCES, EvaluationPlan
from poolsieve.evaluation.report_page import write_report
from poolsieve.evaluation.results import Evaluation
from poolsieve.export import export_run
from poolsieve.images.datasets import load_dataset
from poolsieve.networks import SplitBackbone
from poolsieve.progress import Reporter
from poolsieve.training.recipes import RECIPES, make_settings
from poolsieve.training.run import train
from poolsieve.training.settings import OutlierSettings, TrainingSettings
from poolsieve.training.training_folder import SETTINGS_FILE


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        task: Its file of labelled images.
        settings: Its settings.
        why: What it is compared with, and for what.
        front_of: A run before it whose front and individual network it takes over.
    """

    task: str
    settings: TrainingSettings
    why: str
    front_of: str | None = None


_ALIKE = make_settings(
    cut="block8.depthwise",
    tune_from="block3",
    front_epochs=5,
    individual_epochs=1,
    epochs=7,
    pools_per_epoch=6000,
    views=3,
    validation_pools=2000,
)
_HALF = make_settings(
    shrink=2,
    pool_sizes=(4, 8),
    cut="block8.depthwise",
    tune_from="block2",
    front_epochs=10,
    individual_epochs=3,
    epochs=4,
    pools_per_epoch=4000,
    views=8,
    head_weight=1.0,
    gate_width=56,
    tallies=True,
    clean_share=0.93,
    count_smoothing=0.15,
    shares=(0.36, 0.22, 0.13, 0.09, 0.07, 0.04, 0.03, 0.03, 0.03),
    validation_pools=2000,
    taught_by="firearms",
    compile=True,
)
_PAPER = make_settings("paper", input_size=112)
_CARS = make_settings(individual_epochs=3, epochs=8, pools_per_epoch=2000, outliers=OutlierSettings())
_PAPER_OUTLIERS: OutlierSettings = RECIPES["paper"]["outliers"]


def _cars(**changes: object) -> TrainingSettings:
    return replace(_CARS, outliers=replace(OutlierSettings(), **changes))  # type: ignore[arg-type]


RUNS = {
    "max": Run("firearms.csv", replace(_ALIKE, merge="max"), "the paper's merging"),
    "gated": Run("firearms.csv", _ALIKE, "max with a gate"),
    "tallied": Run("firearms.csv", replace(_ALIKE, tallies=True), "gated with summed head scores"),
    "max-binary": Run("firearms.csv", replace(_ALIKE, merge="max", readings="binary"), "max: BPNN for QPNN"),
    "gated-binary": Run("firearms.csv", replace(_ALIKE, readings="binary"), "gated: BPNN for QPNN"),
    "gated-112": Run("firearms.csv", replace(_ALIKE, input_size=112), "gated, trained at half size"),
    "half-tallied": Run("firearms.csv", _HALF, "half size, taught by the shipped bundle"),
    **{
        f"half-{name}": Run("firearms.csv", replace(_HALF, tallies=False, **changes), why, "half-tallied")
        for name, changes, why in (
            ("gated", {}, "half-tallied without summed head scores"),
            ("max", {"merge": "max"}, "half-gated by the paper's merging"),
            ("gated-binary", {"readings": "binary", "count_smoothing": 0.0}, "half-gated: BPNN for QPNN"),
            (
                "max-binary",
                {"merge": "max", "readings": "binary", "count_smoothing": 0.0},
                "the paper's BPNN",
            ),
        )
    },
    "paper": Run("firearms.csv", _PAPER, "the paper's recipe, 90 epochs at 112 pixels"),
    "paper-binary": Run("firearms.csv", replace(_PAPER, readings="binary"), "paper: BPNN for QPNN"),
    "cars": Run("cars_offtopic.csv", _cars(), "the shipped way"),
    "cars-density": Run("cars_offtopic.csv", _cars(reading="density"), "cars by density alone"),
    "cars-mixture": Run(
        "cars_offtopic.csv",
        _cars(mixture_passes=_PAPER_OUTLIERS.mixture_passes, clusters=_PAPER_OUTLIERS.clusters),
        "cars with the paper's M and K",
    ),
    "cars-histogram": Run(
        "cars_offtopic.csv",
        _cars(
            histogram_pools=_PAPER_OUTLIERS.histogram_pools, histogram_images=_PAPER_OUTLIERS.histogram_images
        ),
        "cars with the paper's histograms",
    ),
    "cars-balance": Run(
        "cars_offtopic.csv", replace(_cars(), balance="flagged"), "cars with the paper's epochs"
    ),
}


def main() -> None:
    """Make the runs that are named, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="see --list")
    parser.add_argument("--list", action="store_true", help="say which runs there are, and end")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the task files")
    parser.add_argument("--work", type=Path, default=Path("runs/paper"), help="folder of all runs")
    parser.add_argument("--images", type=int, default=20_000, help="images of a mixture")
    parser.add_argument("--prevalence", type=float, action="append", help="by default the paper's")
    parser.add_argument("--method", action="append", help="by default all")
    options = parser.parse_args()
    if options.list or not options.names:
        print("\n".join(f"{name:15} {run.why}" for name, run in RUNS.items()))
        return
    unknown = sorted(set(options.names) - set(RUNS))
    if unknown:
        parser.error(f"there is no run {unknown[0]!r}; there are {', '.join(RUNS)}")
    for name in options.names:
        run = RUNS[name]
        plan = EvaluationPlan(
            tuple(options.prevalence or PAPER_PREVALENCES),
            options.images,
            methods=options.method,
            any_task=True,
        )
        if run.front_of is not None:
            take_front(options.work / run.front_of, options.work / name, run.settings)
        make(name, options.data / run.task, options.work, run.settings, plan, Reporter())


def take_front(other: Path, run: Path, settings: TrainingSettings) -> None:
    """Begin a run with the front and the individual network that another one ended with."""
    if (run / SETTINGS_FILE).exists():
        return
    known = json.loads((other / SETTINGS_FILE).read_text())
    own, theirs = settings.to_json(), known["settings"]
    for name in ("merge", "tallies", "readings", "count_smoothing"):
        theirs[name] = own[name]
    for phase in ("front", "individual"):
        shutil.copytree(other / "phases" / phase, run / "phases" / phase)
    (run / SETTINGS_FILE).write_text(json.dumps(known))


def make(
    name: str,
    data: Path,
    work: Path,
    settings: TrainingSettings,
    plan: EvaluationPlan,
    reporter: Reporter,
    backbone: SplitBackbone | None = None,
) -> Evaluation:
    """Train, export and evaluate; what is done already is not done again."""
    run = work / name
    train(data, run, settings, cache_dir=work / "cache", reporter=reporter, backbone=backbone)
    if not (run / "bundle").exists():
        export_run(run, run / "bundle", backbone=backbone)
    found = evaluate(
        load_bundle(run / "bundle"),
        load_dataset(data),
        plan,
        cache_dir=run / "evaluation",
        reporter=reporter,
        data_name=data.name,
    )
    write_report(found, run / "report", thumbnails=False)
    return found


if __name__ == "__main__":
    main()
