"""Which backbone, and where to cut it: accuracy after a short training, against time in the engine.

Every candidate is trained alike: its front stays as it came, the individual network learns for one epoch and
the counting network for pools of 8 for some epochs, all on views drawn anew. Then its parts are timed with
OpenVINO, all candidates in turn, several times over, so that a busy machine slows all of them alike. The
table has accuracy on the validation split (the test split is for what is shipped), multiply-adds and
milliseconds per image of individual testing and of the paper's 50×100 pools (front, gate, half a back), and
the front's share by both.

    python benchmarks/backbones.py --data firearms.csv --work runs/backbones --out backbones.md
    python benchmarks/backbones.py --work runs/backbones --out times.md          # times alone, random weights

It goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path
from typing import Any

from random_bundles import random_bundle

from poolsieve.bundles import Bundle, MultiplyAdds, load_bundle
from poolsieve.engines import open_engine
from poolsieve.export import export_run
from poolsieve.files import write_atomically
from poolsieve.planning.timing import measured_price
from poolsieve.progress import Reporter
from poolsieve.training.recipes import make_settings
from poolsieve.training.run import train

CANDIDATES = (
    ("efficientnet-lite0", "block3.depthwise"),
    ("efficientnet-lite0", "block5.depthwise"),
    ("efficientnet-lite0", "block8.depthwise"),
    ("efficientnet-lite2", "block7.depthwise"),
)
ROUNDS = 7
POOLS_PER_IMAGE = 0.5
GATE_WIDTH = 80


def main() -> None:
    """Train, time and print."""
    given = _arguments()
    reporter = Reporter()
    bundles, figures = {}, {}
    for backbone, cut in CANDIDATES:
        name = f"{backbone}-{cut}"
        if given.data is None:
            folder = given.work / "random" / name
            bundles[name] = random_bundle(folder, backbone, None, cut=cut, gate_width=GATE_WIDTH)
            figures[name] = dict.fromkeys(("individual", "head", "pools", "exact", "within_one"), math.nan)
            continue
        run, out = given.work / name, given.work / "bundles" / name
        settings = make_settings(
            backbone=backbone,
            cut=cut,
            views=1,
            fresh_views=1,
            individual_epochs=1,
            epochs=given.epochs,
            pools_per_epoch=given.pools,
            gate_width=GATE_WIDTH,
            head_weight=1.0,
            count_smoothing=0.15,
            test_pools=400,
            compile=given.compile,
        )
        reporter.line(name)
        train(given.data, run, settings, cache_dir=given.work / "cache", reporter=reporter)
        figures[name] = _figures(run)
        bundles[name] = load_bundle(out) if out.is_dir() else export_run(run, out)
    times = _times(bundles)
    text = "\n".join(_table(bundles, figures, times)) + "\n"
    write_atomically(given.out, text.encode())
    print(text)


def _figures(run: Path) -> dict[str, float]:
    """Validation figures of the best epochs of a run."""
    with (run / "history.csv").open() as stream:
        epochs = [epoch for epoch in csv.DictReader(stream) if epoch["phase"] == "counting-8"]
    best = max(epochs, key=lambda epoch: float(epoch["score"]))
    calibration: dict[str, Any] = json.loads((run / "calibration.json").read_text())
    return {
        "individual": calibration["individual_roc"]["auc"],
        "head": calibration["head_roc"]["auc"],
        "pools": float(best["auc_0_1"]),
        "exact": float(best["exact"]),
        "within_one": float(best["within_one"]),
    }


def _times(bundles: dict[str, Bundle]) -> dict[str, MultiplyAdds]:
    """The least nanoseconds of every part over all rounds."""
    engines = {name: open_engine(bundle) for name, bundle in bundles.items()}
    rounds: dict[str, list[MultiplyAdds]] = {name: [] for name in bundles}
    for _ in range(ROUNDS):
        for name, engine in engines.items():
            rounds[name].append(measured_price(engine))
    return {
        name: MultiplyAdds(*(min(getattr(one, part) for one in seen) for part in _PARTS))
        for name, seen in rounds.items()
    }


_PARTS = ("front", "back", "final", "gate")
_HEAD = (
    "| backbone | cut | individual AUC | head AUC | pools of 8: AUC 0/1 | exact | within one "
    "| M multiply-adds | front | ms individual | front | ms 50×100 |"
)


def _table(
    bundles: dict[str, Bundle], figures: dict[str, dict[str, float]], times: dict[str, MultiplyAdds]
) -> list[str]:
    lines = [_HEAD, "|" + "---|" * 12]
    for (backbone, cut), (name, bundle) in zip(CANDIDATES, bundles.items(), strict=True):
        seen, cost, time = figures[name], bundle.config.cost, times[name]
        pooled = time.front + time.gate + POOLS_PER_IMAGE * time.back
        shown = ["–" if math.isnan(value) else f"{value:.4f}" for value in seen.values()]
        shown += [f"{cost.whole / 1e6:.0f}", f"{cost.front_share:.3f}"]
        shown += [f"{time.whole / 1e6:.2f}", f"{time.front_share:.3f}", f"{pooled / 1e6:.2f}"]
        lines.append(f"| {backbone} | `{cut}` | {' | '.join(shown)} |")
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="labelled images; without them parts are only timed")
    parser.add_argument("--work", type=Path, required=True, help="folder of runs, caches and bundles")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of the counting network")
    parser.add_argument("--pools", type=int, default=3000, help="pools in an epoch")
    parser.add_argument("--compile", action="store_true", help="let torch compile the steps")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
