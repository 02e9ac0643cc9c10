"""What `make demo` runs: make its images, and say how the verdicts on them compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from drawn_firearms.images import IMAGES, compare, make_images

app = typer.Typer(help="Images for a first try: crops of packaged photographs and drawn firearms.")


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


if __name__ == "__main__":
    app()
