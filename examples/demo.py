"""What `make demo` runs: make its images, judge them in several ways, and show the pools of one chunk."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from drawn_firearms.images import DRAWN, IMAGES, Comparison, compare, make_images
from numpy.typing import NDArray

app = typer.Typer(help="Images for a first try: crops of packaged photographs and drawn firearms.")

WAYS: dict[str, dict[str, Any]] = {
    "each by itself": {"scheme": "individual"},
    "default plan": {"scheme": "auto"},
    "pools, adaptive": {"scheme": "adaptive"},
    "pools, 50×100 + MIP": {"scheme": "oneshot"},
}
"""Ways to judge the same images."""
PREVALENCE = 0.02
"""Share of bad images that pools are told: 8 of the 400 are drawn firearms."""
CHUNK = 100


@dataclass(frozen=True)
class Judged:
    """How one way did.

    Attributes:
        way: Its name.
        comparison: Verdicts against what was drawn.
        cost: Multiply-adds, as a share of testing each image.
        seconds: From files to verdicts, once everything is loaded.
    """

    way: str
    comparison: Comparison
    cost: float
    seconds: float


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(help="Where the images go.")],
    images: Annotated[int, typer.Option(help="How many in all.")] = IMAGES,
    seed: Annotated[int, typer.Option(help="Other seeds give other crops and another order.")] = 0,
) -> None:
    """Make the images."""
    files = make_images(folder, images=images, seed=seed)
    typer.echo(f"made {len(files)} images in {folder}")


@app.command()
def check(
    verdicts: Annotated[list[Path], typer.Argument(help="Verdicts as .csv; may be several.")],
) -> None:
    """Compare verdicts on these images with what was drawn."""
    for file in verdicts:
        typer.echo(f"{file.name}: {compare(file)}")


@app.command()
def ways(
    folder: Annotated[Path, typer.Argument(help="The images.")],
    out: Annotated[Path, typer.Argument(help="Where the verdicts of each way go.")],
    bundle: Annotated[str, typer.Option(help="Name or folder of a bundle.")] = "firearms",
) -> None:
    """Judge the same images in every way, and print what each found and cost."""
    out.mkdir(parents=True, exist_ok=True)
    found = [judged(way, folder, out, bundle, **settings) for way, settings in WAYS.items()]
    typer.echo("\n".join(table_lines(found)))


@app.command()
def pools(
    folder: Annotated[Path, typer.Argument(help="The images.")],
    page: Annotated[Path, typer.Argument(help="The page that is written.")],
    bundle: Annotated[str, typer.Option(help="Name or folder of a bundle.")] = "firearms",
) -> None:
    """Judge 100 images that do not look alike by the paper's 50 pools of 8, and show these pools."""
    from PIL import Image

    from poolsieve.bundles import load_bundle
    from poolsieve.engines import open_engine
    from poolsieve.images import plain_view
    from poolsieve.moderation import pools_page
    from poolsieve.schemes import Chunk, CostMeter, LikelihoodModel, make_scheme
    from poolsieve.schemes.look_alikes import find_groups

    loaded = load_bundle(bundle)
    config, engine = loaded.config, open_engine(loaded)
    files = sorted(folder.glob("*.jpg"))
    if not files:
        raise typer.BadParameter(f"{folder} has no images; make them first")
    pixels = np.stack([plain_view(Image.open(file), config.input_size, config.resize_mode) for file in files])

    def chunk_of(images: NDArray[np.intp]) -> Chunk:
        model, meter = LikelihoodModel(loaded.calibration), CostMeter(config.cost)
        places = np.arange(len(images))
        return Chunk(engine, model, meter, pixels[images], places, len(places), gated=config.merge == "gated")

    everyone = np.arange(len(files))
    groups = find_groups(chunk_of(everyone).features(everyone))
    shown = np.sort(np.unique(groups, return_index=True)[1])[:CHUNK]  # the first of each group
    scheme = make_scheme("oneshot", config.pool_sizes, prevalence=PREVALENCE)
    decision = scheme.decide(chunk_of(shown), np.random.default_rng(0))
    pictures = [Image.fromarray(pixels[image]).resize((72, 72)) for image in shown]
    title = "The pools of one chunk, and what MIP made of them"
    names = [files[image].name for image in shown]
    page.write_text(pools_page(decision, names, pictures, title), encoding="utf-8")
    drawn = np.array([f"-{DRAWN}-" in name for name in names])
    typer.echo(
        f"{page}: {decision.flags.sum()} of {len(shown)} images flagged by their pools; "
        f"{(decision.flags & drawn).sum()} of {drawn.sum()} drawn firearms are among them"
    )


def judged(way: str, folder: Path, out: Path, bundle: str, **settings: Any) -> Judged:
    """Judge all images in one way."""
    from poolsieve import Moderator

    moderator = Moderator.load(bundle, seed=0, prevalence=PREVALENCE, **settings)
    list(moderator.moderate(sorted(folder.glob("*.jpg"))[:CHUNK]))  # compiles what is compiled once
    run = moderator.new_run()
    begin = time.perf_counter()
    verdicts = list(moderator.moderate(folder, run=run))
    seconds = time.perf_counter() - begin
    file = out / f"{settings['scheme']}.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(
            [("path", "status"), *((verdict.path, verdict.status) for verdict in verdicts)]
        )
    return Judged(way, compare(file), run.totals.meter.share, seconds)


def table_lines(found: list[Judged]) -> list[str]:
    """A table, and in words where pools did worse than the default plan."""
    lines = [f"{'':<21}{'found':>9}{'false flags':>13}{'cost':>7}{'seconds':>9}"]
    for one in found:
        result = one.comparison
        drawn = f"{len(result.found)} of {len(result.found) + len(result.missed)}"
        lines.append(
            f"{one.way:<21}{drawn:>9}{len(result.false_flags):>13}{one.cost:>7.2f}{one.seconds:>9.1f}"
        )
    lines.append("cost: multiply-adds, as a share of testing each image by itself")
    plan = next(one for one in found if one.way == "default plan")
    for one in found:
        if not one.way.startswith("pools"):
            continue
        worse = [f"costs {one.cost:.2f} where the default plan costs {plan.cost:.2f}"] * (
            one.cost > plan.cost
        )
        missed = len(plan.comparison.found) - len(one.comparison.found)
        worse += [f"misses {missed} that the default plan finds"] * (missed > 0)
        if worse:
            lines.append(f"{one.way}: {' and '.join(worse)}")
    return lines


if __name__ == "__main__":
    app()
