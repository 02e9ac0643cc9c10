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
from poolsieve.bundles.config import OUTLIER_FILE
from poolsieve.evaluation import evaluate
from poolsieve.evaluation.evaluation_plan import PAPER_PREVALENCES, EvaluationPlan
from poolsieve.evaluation.report_page import write_report
from poolsieve.evaluation.results import Evaluation
from poolsieve.export import export_run
from poolsieve.export.bundle_writing import RESULTS_FILE
from poolsieve.images.datasets import load_dataset
from poolsieve.networks import SplitBackbone
from poolsieve.networks.trained import load_model
from poolsieve.outliers import OutlierReadings
from poolsieve.progress import Reporter
from poolsieve.training.recipes import RECIPES, make_settings
from poolsieve.training.run import train
from poolsieve.training.run_results import measure, table_lines
from poolsieve.training.settings import OutlierSettings, TrainingSettings
from poolsieve.training.split_features import SplitFeatures
from poolsieve.training.training_folder import SETTINGS_FILE


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        task: Its file of labelled images.
        settings: Its settings.
        why: What it is compared with, and for what.
        like: A run before it whose trained networks it takes over, as far as they are the same.
    """

    task: str
    settings: TrainingSettings
    why: str
    like: str | None = None


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
_CARS = make_settings(  # as the shipped bundle is trained at half size, for pools of 8 alone
    shrink=2,
    tune_from="block2",
    front_epochs=6,
    individual_epochs=2,
    epochs=8,
    pools_per_epoch=4000,
    head_weight=1.0,
    select_by="likelihood",
    outliers=OutlierSettings(),
    compile=True,
)
_PAPER_OUTLIERS: OutlierSettings = RECIPES["paper"]["outliers"]


_PAPER_MIXTURE = {
    "mixture_passes": _PAPER_OUTLIERS.mixture_passes,
    "clusters": _PAPER_OUTLIERS.clusters,
}
_PAPER_HISTOGRAM = {
    "histogram_pools": _PAPER_OUTLIERS.histogram_pools,
    "histogram_images": _PAPER_OUTLIERS.histogram_images,
}


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
    "paper-small": Run(
        "firearms.csv",
        replace(_PAPER, pools_per_epoch=208, validation_pools=200, compile=True),
        "the same with 208 pools an epoch, 18,720 in all: an hour or two of one core",
    ),
    "paper-binary": Run("firearms.csv", replace(_PAPER, readings="binary"), "paper: BPNN for QPNN"),
    "cars": Run("cars_offtopic.csv", _cars(), "the shipped way"),
    **{
        f"cars-{name}": Run("cars_offtopic.csv", _cars(**changes), why, "cars")
        for name, changes, why in (
            ("density", {"reading": "density"}, "cars by density alone"),
            ("mixture", _PAPER_MIXTURE, "cars with the paper's M and K"),
            ("histogram", _PAPER_HISTOGRAM, "cars with the paper's histograms"),
            ("density-mixture", {"reading": "density", **_PAPER_MIXTURE}, "density, the paper's M and K"),
            (
                "density-paper",
                {"reading": "density", **_PAPER_MIXTURE, **_PAPER_HISTOGRAM},
                "density, the paper's M, K and histograms",
            ),
        )
    },
    "cars-balance": Run(
        "cars_offtopic.csv", replace(_cars(), balance="flagged"), "cars with the paper's epochs"
    ),
    "firearms-density": Run(
        "firearms_offtopic.csv",
        _cars(reading="density"),
        "a forum on firearms by density alone, trained as cars are",
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
    parser.add_argument("--train-only", action="store_true", help="train and measure, evaluate no methods")
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
        if run.like is not None:
            take_networks(options.work / run.like, options.work / name, run.settings)
        if options.train_only:
            train_only(options.data / run.task, options.work / name, run.settings)
        else:
            make(name, options.data / run.task, options.work, run.settings, plan, Reporter())


_POOLED = ("merge", "tallies", "readings", "count_smoothing")
"""Settings that change pooled networks and nothing before them."""


def take_networks(other: Path, run: Path, settings: TrainingSettings) -> None:
    """Begin a run with networks that another one ended with: all, or what comes before pooled networks."""
    if (run / SETTINGS_FILE).exists():
        return
    known = json.loads((other / SETTINGS_FILE).read_text())
    own, theirs = settings.to_json(), known["settings"]
    same = all(own[name] == theirs[name] for name in _POOLED)
    for phase in sorted((other / "phases").iterdir()):
        if same or not phase.name.startswith("counting"):
            shutil.copytree(phase, run / "phases" / phase.name)
    known["settings"] = theirs | {name: own[name] for name in (*_POOLED, "outliers")}
    (run / SETTINGS_FILE).write_text(json.dumps(known))


def train_only(data: Path, run: Path, settings: TrainingSettings) -> None:
    """Train, and measure on validation images too: by those settings are chosen."""
    cache, reporter = run.parent / "cache", Reporter()
    if not (run / RESULTS_FILE).is_file():
        train(data, run, settings, cache_dir=cache, reporter=reporter)
    model, known = load_model(run), json.loads((run / SETTINGS_FILE).read_text())["settings"]
    settings = replace(TrainingSettings.from_json(known), cut=model.backbone.cut, seed=1)  # other pools
    features = SplitFeatures(model.backbone, load_dataset(data), replace(settings, seed=0), cache, reporter)
    file = run / OUTLIER_FILE
    outliers = OutlierReadings.from_bytes(file.read_bytes()) if file.is_file() else None
    found = measure(model, features.cached("val"), settings, outliers)
    (run / "validation.json").write_text(json.dumps(found, indent=2) + "\n")
    print("\n".join(["on validation images:", *table_lines(found)]), flush=True)


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
