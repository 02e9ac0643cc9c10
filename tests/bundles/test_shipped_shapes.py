"""The shipped firearms bundle on photographs that are no squares, as its training images were."""

import csv
from pathlib import Path

import numpy as np
import pytest
from drawn_firearms.photographs import load_photographs, photograph_view
from drawn_firearms.scenes import SCENES, render
from PIL import Image, ImageOps

from poolsieve import Moderator
from poolsieve.images.reading import read_image

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the photographs in {SHARED}")
SHAPES = {"4:3": (800, 600), "3:4": (600, 800), "16:9": (960, 540), "9:16": (540, 960)}


@pytest.fixture(scope="module", params=["individual", "auto"])
def moderator(request):
    return Moderator.load("firearms", scheme=request.param, seed=0, threads=1)


def judge(moderator, sources):
    """Whether each image is flagged, and its score. Shapes (images,) and (images,)."""
    verdicts = list(moderator.moderate(sources))
    assert all(verdict.status != "error" for verdict in verdicts)
    flags = np.array([verdict.status == "flagged" for verdict in verdicts])
    return flags, np.array([verdict.score for verdict in verdicts])


def unsqueezed(squares, folder):
    """JPEG files of square pictures, enlarged to every shape."""
    files = {}
    for number, (shape, size) in enumerate(SHAPES.items()):
        files[shape] = [str(folder / f"{number}-{i:03d}.jpg") for i in range(len(squares))]
        for square, file in zip(squares, files[shape], strict=True):
            square.resize(size, Image.Resampling.BICUBIC).save(file, quality=90)
    return files


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """16 drawn firearms, then as many views of photographs: squares, and files of every shape."""
    rng, photographs = np.random.default_rng(0), load_photographs()
    firearms = [render(scene, 224, photographs, rng) for scene in SCENES]
    views = [photograph_view(photograph, 224, rng) for photograph in photographs.values()]
    squares = [*firearms, *map(ImageOps.mirror, firearms), *views[:16]]
    return [np.asarray(square) for square in squares], unsqueezed(squares, tmp_path_factory.mktemp("drawn"))


def test_drawn_firearms_are_judged_alike_in_every_shape(drawn, moderator):
    squares, files = drawn
    flags, scores = judge(moderator, squares)
    assert flags[:16].sum() >= 13
    for shape in SHAPES:
        other, there = judge(moderator, files[shape])
        assert np.sum(flags != other) <= 1, shape
        assert np.mean(np.abs(scores - there)) < 0.03, shape


@pytest.fixture(scope="module")
def firearms(tmp_path_factory):
    """150 firearms of the test split: squares, and files of every shape."""
    table = SHARED / "tasks" / "firearms.csv"
    with table.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if (row["split"], row["label"]) == ("test", "1")]
    chosen = np.random.default_rng(0).permutation(len(rows))[:150]
    squares = [read_image(table.parent / rows[i]["file"]) for i in np.sort(chosen)]
    return [np.asarray(square) for square in squares], unsqueezed(squares, tmp_path_factory.mktemp("real"))


@needs_data
def test_as_many_firearms_are_found_in_every_shape(firearms, moderator):
    """The same firearms in all shapes, so that only the few count whose verdicts differ.

    On all 466 each shape loses .2 to .4 points (experiments/). Of 150, one point of four shapes together
    is 6 firearms net; of a single shape it is 1.5, and chance moves that by about as many.
    """
    squares, files = firearms
    found, _ = judge(moderator, squares)
    lost = [int(found.sum()) - int(judge(moderator, files[shape])[0].sum()) for shape in SHAPES]
    assert sum(lost) <= 6, lost
    assert max(lost) <= 3, lost


@needs_data
def test_natural_photographs_are_judged_as_if_squeezed_by_hand(moderator):
    files = sorted((SHARED / "natural" / "firearm").iterdir())
    files += sorted((SHARED / "natural" / "ordinary").iterdir())[:60]
    size = moderator.bundle.config.input_size
    by_hand = [np.asarray(read_image(file).resize((size, size), Image.Resampling.BILINEAR)) for file in files]
    expected, _ = judge(moderator, by_hand)
    flags, _ = judge(moderator, [str(file) for file in files])
    assert np.sum(flags != expected) <= 2  # large ones are decoded at a reduced size
    assert abs(int(flags[:120].sum()) - int(expected[:120].sum())) <= 1
