"""Which scheme is cheapest at which prevalence and tolerated loss, for each shipped bundle: a map.

    python benchmarks/cheapest_schemes.py [--bundle cars] [--figures docs/figures]

Plans from the recordings (validation images) of what `moderate` runs on nearly all processors, int8
editions, with the promise that a plan keeps; beside the cheapest scheme it notes the cheapest one with pools
and the cheapest without. Writes benchmarks/results/cheapest-BUNDLE.json and a picture of each map. About a
minute a bundle.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
from result_files import read_result, write_result

from poolsieve.bundles import load_bundle
from poolsieve.line_styles import styles_of
from poolsieve.planning import plan
from poolsieve.schemes.scheme import SCHEMES

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PREVALENCES = (0.0005, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
LOSSES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
POOLED = {name for name, stages in SCHEMES.items() if any(stage.pools for stage in stages)}


def measure(name: str) -> list[dict[str, Any]]:
    bundle, rows = load_bundle(name), []
    bundle = bundle.edition("int8") if "int8" in bundle.config.editions else bundle
    for loss in LOSSES:
        for prevalence in PREVALENCES:
            choices = plan(bundle, prevalence, within=loss)
            costs = {one.scheme: one.cost.value for one in reversed(choices.plans)}
            best = choices.best
            kinds = {
                kind: min(
                    (cost for scheme, cost in costs.items() if (scheme in POOLED) == pooled), default=None
                )
                for kind, pooled in (("with_pools", True), ("without_pools", False))
            }
            rows.append(
                {
                    "prevalence": prevalence,
                    "within": loss,
                    "scheme": best.scheme,
                    "cost": best.cost.value,
                    "sensitivity": best.sensitivity.value,
                    **kinds,
                }
            )
            print(f"{name} p={prevalence} within {loss}: {best.scheme} {best.cost.value:.3f}  {kinds}")
    return rows


def draw(name: str, file: Path) -> None:
    """Colours by scheme, costs written in."""
    rows = read_result(f"cheapest-{name}")["rows"]
    found = sorted({row["scheme"] for row in rows}, key=list(SCHEMES).index)
    styles = styles_of(found)
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for row in rows:
        x, y = PREVALENCES.index(row["prevalence"]), LOSSES.index(row["within"])
        axes.add_patch(
            plt.Rectangle((x - 0.5, y - 0.5), 1, 1, color=styles[row["scheme"]].colour, alpha=0.35)
        )
        axes.text(x, y, f"{row['cost']:.2f}".lstrip("0"), ha="center", va="center", fontsize=9)
    axes.set_xticks(range(len(PREVALENCES)), [f"{100 * p:g}%" for p in PREVALENCES])
    axes.set_yticks(range(len(LOSSES)), [f"{100 * loss:g}" for loss in LOSSES])
    axes.set_xlim(-0.5, len(PREVALENCES) - 0.5)
    axes.set_ylim(-0.5, len(LOSSES) - 0.5)
    axes.set_xlabel("bad images")
    axes.set_ylabel("points of sensitivity\nthat may be lost")
    axes.set_title(f"{name}: the cheapest scheme, and its cost")
    handles = [plt.Rectangle((0, 0), 1, 1, color=styles[one].colour, alpha=0.35) for one in found]
    figure.legend(handles, found, loc="outside right upper", frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", action="append", help="by default all that come with poolsieve")
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    for bundle in options.bundle or ["firearms", "cars"]:
        name = Path(bundle).name
        write_result(
            f"cheapest-{name}",
            f"python benchmarks/cheapest_schemes.py --bundle {name}",
            measure(bundle),
            bundle=name,
            sha256=load_bundle(bundle).hash,
            notes=[],
        )
        draw(name, options.figures / f"cheapest-{name}.png")


if __name__ == "__main__":
    main()
