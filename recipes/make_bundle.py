"""Remakes a bundle that comes with poolsieve, from its task file to the folder that is shipped.

    python recipes/make_bundle.py firearms --data ../shared/data/tasks --work runs

Trains (an interrupted run goes on where it was), exports with half-precision weights, joins the individual
network with looks and pools at half size where the recipe has them, records validation images for the
planner, makes the int8 edition, and says which of the figures that a bundle must reach on the test split it
reaches.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from poolsieve.bundles import Bundle, load_bundle
from poolsieve.bundles.loading import SHIPPED
from poolsieve.export import export_run
from poolsieve.export.joining import join_bundles
from poolsieve.export.quantising import quantise_bundle
from poolsieve.export.recording import record_bundle
from poolsieve.progress import Reporter
from poolsieve.training.recipes import make_settings
from poolsieve.training.run import train
from poolsieve.training.settings import GlanceSettings, OutlierSettings, TrainingSettings

HERE = Path(__file__).parent
LARGEST = 40e6
"""Bytes that a shipped bundle may have."""


@dataclass(frozen=True)
class Recipe:
    """How one bundle is made.

    Attributes:
        task: Its file of labelled images.
        settings: Its training.
        half: The training of networks at half size whose looks and pools come before the individual network.
        targets: Least values of figures on the test split, by their place in `results.json`.
        limits: Largest values, likewise; "a - b" stands for a difference.
    """

    task: str
    settings: TrainingSettings
    half: TrainingSettings | None = None
    targets: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)


_TUNED = make_settings(
    pool_sizes=(4, 8),
    front="tuned",
    tune_from="block3",
    front_epochs=5,
    individual_epochs=1,
    epochs=8,
    pools_per_epoch=6000,
    gate_width=80,
    head_weight=1.0,
    count_smoothing=0.15,
    glance=GlanceSettings(stop="block13"),
    compile=True,
)

RECIPES = {
    "firearms": Recipe(
        "firearms.csv",
        replace(
            _TUNED,
            cut="block8.depthwise",
            views=3,
            fresh_views=1,
            epochs=7,
            gate_width=56,
            tallies=True,
            clean_share=0.93,
            shares=(0.36, 0.22, 0.13, 0.09, 0.07, 0.04, 0.03, 0.03, 0.03),
            validation_pools=2000,
        ),
        None,
        {
            "individual.auc": 0.99,
            "individual.sensitivity_at_985": 0.92,
            "head.auc": 0.96,
            "counting.8.auc_0_1": 0.94,
            "counting.8.per_count.0.exact": 0.95,
            "counting.4.auc_0_1": 0.96,
            **{f"counting.8.per_count.{count}.within_one": 0.93 for count in range(5)},
        },
        {"cost.gate_share": 0.02, "counting.8.ideal_auc_0_1 - counting.8.auc_0_1": 0.02},
    ),
    "cars": Recipe(
        "cars_offtopic.csv",
        make_settings(
            individual_epochs=3,
            epochs=8,
            pools_per_epoch=2000,
            outliers=OutlierSettings(),
        ),
        make_settings(
            shrink=2,
            pool_sizes=(8, 16),
            front="tuned",
            tune_from="block2",
            front_epochs=6,
            individual_epochs=2,
            epochs=8,
            pools_per_epoch=4000,
            head_weight=1.0,
            select_by="likelihood",
            outliers=OutlierSettings(),
        ),
        {"individual.auc": 0.97},
    ),
    "firearms-offtopic": Recipe(  # for experiments/; not shipped
        "firearms_offtopic.csv",
        replace(
            _TUNED,
            pool_sizes=(8,),
            pools_per_epoch=4000,
            select_by="likelihood",
            outliers=OutlierSettings(),
            glance=None,
        ),
    ),
    "knives": Recipe("knives.csv", replace(_TUNED, front_epochs=10, individual_epochs=2)),
}


def main() -> None:
    """Make one bundle."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--data", type=Path, required=True, help="folder of the task files")
    parser.add_argument("--work", type=Path, default=Path("runs"), help="folder of runs and cached features")
    parser.add_argument("--install", action="store_true", help="put the bundle into the package")
    options = parser.parse_args()

    recipe, reporter = RECIPES[options.name], Reporter()
    data, run = options.data / recipe.task, options.work / options.name
    cache, out = options.work / "cache", options.work / "bundles" / options.name
    results = train(data, run, recipe.settings, cache_dir=cache, reporter=reporter)
    half = None
    if recipe.half is not None:
        half = run.with_name(f"{run.name}-half")
        train(data, half, recipe.half, cache_dir=cache, reporter=reporter)
    bundle = make(options.name, run, half, out, data, reporter)
    print("\n".join(target_lines(results, recipe.targets, recipe.limits)))
    if options.install:
        shutil.rmtree(SHIPPED / options.name, ignore_errors=True)
        shutil.copytree(bundle.path, SHIPPED / options.name)
        print(f"installed into {SHIPPED / options.name}")


def make(name: str, run: Path, half: Path | None, out: Path, data: Path, reporter: Reporter) -> Bundle:
    """Export a run, without the weights to train on, join it with one at half size, and record images."""
    notes = HERE / f"{name}.md"
    text = notes.read_text() if notes.is_file() else ""
    parts = [out if half is None else out.with_name(f"{name}-whole"), out.with_name(f"{name}-half")]
    for folder in (out, *parts):
        shutil.rmtree(folder, ignore_errors=True)
    export_run(run, parts[0], precision="fp16", weights=False, notes=text)
    if half is None:
        record_bundle(out, data, reporter=reporter)
    else:
        export_run(half, parts[1], precision="fp16", weights=False)
        join_bundles(parts[0], parts[1], data, out, notes=text, reporter=reporter)
    quantise_bundle(out, data, reporter=reporter)
    bundle = load_bundle(out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    reporter.line(f"{out}: {size / 1e6:.1f} MB")
    if size > LARGEST:
        raise ValueError(f"{out} has {size / 1e6:.1f} MB, but a shipped bundle may have {LARGEST / 1e6:.0f}")
    return bundle


def target_lines(results: dict[str, Any], targets: dict[str, float], limits: dict[str, float]) -> list[str]:
    """What was to be reached and what was, figure by figure."""
    lines = []
    for place, least in targets.items():
        value = _figure(results, place)
        lines.append(f"{_word(value >= least)}  {place} {value:.4f}, at least {least}")
    for place, most in limits.items():
        first, *others = (_figure(results, part) for part in place.split(" - "))
        value = first - sum(others)
        lines.append(f"{_word(value <= most)}  {place} {value:.4f}, at most {most}")
    return lines


def _figure(results: dict[str, Any], place: str) -> float:
    value: Any = results
    for key in place.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return float(value)


def _word(reached: bool) -> str:
    return "reached" if reached else "MISSED "


if __name__ == "__main__":
    main()
