"""Making the folder of the demo, and comparing verdicts with what was drawn."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drawn_firearms.photographs import load_photographs, load_shown_once, photograph_view
from drawn_firearms.scenes import SCENES, render

IMAGES = 400
SIZE = 320
DRAWN = "drawn"
"""What the names of pictures with a drawn firearm say."""


def make_images(folder: Path, *, images: int = IMAGES, seed: int = 0) -> list[Path]:
    """Write the demo's images: one for each of `SCENES`, the others are views of photographs.

    Args:
        folder: Where to; it is made if needed and may hold images of an earlier call, which are replaced.
        images: How many in all.
        seed: Of crops, grain, noise and order; the same seed gives the same pictures.

    Returns:
        The files, in the order of their names.
    """
    photographs, once = load_photographs(), load_shown_once()
    special = len(SCENES) + len(once)
    if images <= special:
        raise ValueError(f"images={images}, but {special} of them are drawn or shown once; ask for more")
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*.jpg"):
        old.unlink()
    pictures = [(f"{DRAWN}-{scene.kind}", render(scene, SIZE, photographs, rng)) for scene in SCENES]
    pictures += [(name, photograph.resize((SIZE, SIZE))) for name, photograph in once.items()]
    names = list(photographs)
    for number in range(images - special):
        name = names[number % len(names)]
        pictures.append((name, photograph_view(photographs[name], SIZE, rng)))
    files = []
    for number, place in enumerate(rng.permutation(images)):
        name, picture = pictures[place]
        files.append(folder / f"{number:04d}-{name}.jpg")
        picture.save(files[-1], quality=90)
    return files


@dataclass(frozen=True)
class Comparison:
    """Verdicts against what was drawn.

    Attributes:
        found: Drawn firearms that were flagged.
        missed: Drawn firearms that were not.
        false_flags: Photographs that were flagged.
        photographs: All photographs.
    """

    found: tuple[str, ...]
    missed: tuple[str, ...]
    false_flags: tuple[str, ...]
    photographs: int

    def __str__(self) -> str:
        drawn = len(self.found) + len(self.missed)
        text = f"{len(self.found)} of {drawn} drawn firearms found"
        if self.missed:
            text += f" (missed: {', '.join(self.missed)})"
        return f"{text}, {len(self.false_flags)} of {self.photographs} photographs flagged" + (
            f" ({', '.join(self.false_flags)})" if self.false_flags else ""
        )


def compare(verdicts: Path) -> Comparison:
    """Compare a CSV file of verdicts on the demo's images with what their names say."""
    found: list[str] = []
    missed: list[str] = []
    false_flags: list[str] = []
    photographs = 0
    with verdicts.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            name, flagged = Path(row["path"]).name, row["status"] == "flagged"
            if f"-{DRAWN}-" in name:
                (found if flagged else missed).append(name)
            else:
                photographs += 1
                if flagged:
                    false_flags.append(name)
    return Comparison(tuple(found), tuple(missed), tuple(false_flags), photographs)
