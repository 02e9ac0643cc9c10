"""`poolsieve plan`: the cheapest scheme that meets a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolsieve.cli.saying import say

if TYPE_CHECKING:
    from rich.console import Console

    from poolsieve.bundles import Bundle
    from poolsieve.planning.plans import Plan
    from poolsieve.planning.search import Choices
    from poolsieve.schemes.cost_model import Price


def plan(
    bundle: Annotated[
        str,
        typer.Argument(help="Folder of a bundle with recordings, or name of one that comes with poolsieve."),
    ],
    prevalence: Annotated[float, typer.Option(help="Expected share of bad images.", show_default=False)],
    sensitivity: Annotated[
        float | None,
        typer.Option(
            help="Least share of bad images to flag. \\[default: individual testing's less --within]"
        ),
    ] = None,
    specificity: Annotated[
        float | None,
        typer.Option(help="Least share of clear images to leave alone. \\[default: individual testing's]"),
    ] = None,
    within: Annotated[
        float, typer.Option(help="How far below individual testing the sensitivity may lie.")
    ] = 0.01,
    specificity_within: Annotated[
        float,
        typer.Option(
            help="How far below individual testing the specificity may lie: 0.005 may flag half a point more "
            "of the clear images, and cost less."
        ),
    ] = 0.0,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score of an individual test above which an image is flagged. "
            "\\[default: chosen with the plan]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the plan for `poolsieve moderate --plan`: .json.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the frontier of cost and sensitivity: .png, .svg or .pdf.")
    ] = None,
    front_share: Annotated[
        float | None,
        typer.Option(
            help="Reckon with a network whose front has this share of the cost, such as 0.22 for "
            "ResNeXt-101: a projection, as its readings would differ."
        ),
    ] = None,
    measured: Annotated[
        bool, typer.Option("--measured", help="Reckon with times measured on this machine now.")
    ] = False,
    images: Annotated[
        int | None,
        typer.Option(
            help="Intervals for what this many other images will show. \\[default: as many as were recorded]"
        ),
    ] = None,
    runners_up: Annotated[int, typer.Option(help="Other plans to show.", min=0)] = 5,
) -> None:
    """Choose the cheapest scheme that meets a target, from what the bundle's networks said of real images.

    For instance:

        poolsieve plan firearms --prevalence 0.01 --within 0.01 --out plan.json
    """
    from rich.console import Console

    from poolsieve.bundles import load_bundle
    from poolsieve.figures import check_figure_path
    from poolsieve.planning import plan as choose
    from poolsieve.planning import save_plan
    from poolsieve.planning.figure import draw_frontier

    if figure is not None:
        check_figure_path(figure)
    if out is not None and front_share is not None:
        raise ValueError("a projection to another network cannot be followed; leave out --out")
    loaded = load_bundle(bundle)
    choices = choose(
        loaded,
        prevalence,
        sensitivity=sensitivity,
        specificity=specificity,
        within=within,
        specificity_within=specificity_within,
        threshold=threshold,
        price=_price(loaded, front_share, measured),
        images=images,
    )
    console = Console()
    _print_choices(choices, runners_up, console, projection=front_share)
    if figure is not None:
        say(console, f"drew {draw_frontier(choices, figure)}")
    if out is not None:
        save_plan(choices.best, out, bundle=loaded.hash)
        say(console, f"wrote {out}")


def _price(bundle: Bundle, front_share: float | None, measured: bool) -> Price:
    """The bundle's cost, times, or its cost with another share of the front; gate and glance stay."""
    if measured and front_share is not None:
        raise ValueError("give --measured or --front-share, not both")
    if measured:
        from poolsieve.engines import open_engine
        from poolsieve.planning.timing import measured_price

        return measured_price(open_engine(bundle))
    if front_share is None:
        return bundle.config.cost
    if not 0 < front_share < 1:
        raise ValueError(f"--front-share is {front_share}, but must lie between 0 and 1")
    return bundle.config.cost.with_front_share(front_share)


def _print_choices(choices: Choices, runners_up: int, console: Console, *, projection: float | None) -> None:
    from rich.table import Table

    from poolsieve.planning.search import NEAR_TIE

    if projection is not None:
        say(
            console, f"projection to a network with front share {projection}, as if it read like the bundle's"
        )
    best = choices.best
    asked = f"sensitivity ≥ {choices.least_sensitivity:.4f}, specificity ≥ {choices.least_specificity:.4f}"
    if not best.meets_target:
        say(
            console,
            f"no scheme reaches {asked}. Every flag is in the end the individual network's, or a guess of "
            "pools that know less, and that network itself reaches at most sensitivity "
            f"{best.sensitivity.value:.4f} at specificity {best.specificity.value:.4f} (threshold "
            f"{best.parameters['threshold']}) on the recorded images. Ask for less, or train a better "
            "network.",
        )
    table = Table(title=f"prevalence {best.prevalence:g}: {asked}")
    for column in ("plan", "sensitivity", "specificity", "lost to individual testing", "cost"):
        table.add_column(column, overflow="fold")
    for one in choices.plans[: runners_up + 1]:
        table.add_row(*_row(one), style="bold" if one is best else None)
    if best.scheme != "individual" and all(
        one.scheme != "individual" for one in choices.plans[: runners_up + 1]
    ):
        table.add_row(*_row(choices.individual))
    console.print(table, highlight=False)
    if any(one.meets_target and one.cost.value < best.cost.value for one in choices.plans):
        say(
            console,
            f"chosen is {best.scheme}: costs that differ by at most {NEAR_TIE} are a tie, which the simpler "
            "plan wins",
        )
    for line in (*choices.left_out, *([] if best.note is None else [best.note])):
        say(console, line)


def _row(one: Plan) -> tuple[str, ...]:
    return one.describe(), str(one.sensitivity), str(one.specificity), str(one.loss), str(one.cost)
