"""The images of `make demo`, and that they are no part of the package."""

import csv
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from drawn_firearms import images, photographs
from drawn_firearms.drawing import Sheet
from drawn_firearms.images import compare, make_images
from drawn_firearms.outlines import FINISHES, KINDS
from drawn_firearms.photographs import load_photographs, photograph_view
from drawn_firearms.scenes import SCENES, Scene, render
from drawn_firearms.shading import BLUED_STEEL, WALNUT
from PIL import Image


@pytest.fixture(scope="module")
def loaded():
    return load_photographs()


def test_every_kind_is_drawn_inside_its_canvas():
    for name, kind in KINDS.items():
        alpha = kind(np.random.default_rng(0), FINISHES["blued"]).alpha
        assert 0.08 < alpha.mean() < 0.5, name
        edges = (alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1])
        assert not any(edge.any() for edge in edges), f"{name} is cut off"


def test_light_comes_from_above_and_material_gives_the_colour():
    sheet = Sheet(200, 120, np.random.default_rng(0))
    sheet.box(20, 20, 180, 100, BLUED_STEEL, 40)
    brightness = sheet.canvas.colour.mean(axis=2)
    assert brightness[30:45, 60:140].mean() > 1.5 * brightness[75:90, 60:140].mean()
    sheet.box(20, 20, 180, 100, WALNUT, 10)
    red, _, blue = sheet.canvas.colour[60, 100]
    assert red > 2 * blue


def test_a_ring_is_hollow_and_nothing_outside_is_drawn():
    sheet = Sheet(60, 60, np.random.default_rng(0))
    sheet.disc(30, 30, 20, BLUED_STEEL, inner=10)
    assert sheet.canvas.alpha[30, 30] == 0
    assert sheet.canvas.alpha[30, 15] == 1
    with pytest.raises(ValueError, match="outside the canvas"):
        sheet.disc(300, 300, 5, BLUED_STEEL)


@pytest.mark.parametrize("ground", ["paper", "table", "brick", "gravel", "grass"])
def test_a_scene_shows_the_firearm_on_its_ground(loaded, ground):
    scene = Scene("revolver", "black", ground, 10, 0.8)
    picture = render(scene, 96, loaded, np.random.default_rng(1))
    assert picture.size == (96, 96)
    grey = np.asarray(picture.convert("L"), dtype=float)
    assert np.percentile(grey[30:66, 20:76], 5) < 0.6 * np.median(grey[:10])


def test_mirroring_turns_the_muzzle_to_the_right(loaded):
    def dark_side(mirrored):
        scene = Scene("pistol", "black", "paper", 0, 0.8, mirrored)
        grey = np.asarray(render(scene, 96, loaded, np.random.default_rng(1)).convert("L"))
        lower = grey[60:80] < 90  # only the grip reaches down there
        return np.flatnonzero(lower.any(axis=0)).mean()

    assert dark_side(False) > 48 > dark_side(True)


def test_views_are_inside_their_photograph():
    blocks = np.zeros((90, 140, 3), dtype=np.uint8) + 200
    view = photograph_view(Image.fromarray(blocks), 64, np.random.default_rng(0))
    assert view.size == (64, 64)
    assert np.asarray(view).min() > 100  # nothing black from beyond the edge


def test_the_folder_is_mixed_and_the_same_for_the_same_seed(tmp_path, monkeypatch):
    assert {scene.kind for scene in SCENES} == set(KINDS)
    monkeypatch.setattr(images, "SCENES", SCENES[2:4])  # two are as good as eight, and faster
    files = make_images(tmp_path / "first", images=20, seed=3)
    names = [file.name for file in files]
    assert len(names) == 20
    assert sorted(name[5:] for name in names if "-drawn-" in name) == [
        "drawn-assault-rifle.jpg",
        "drawn-revolver.jpg",
    ]
    assert sum("-camera" in name for name in names) == 1
    (tmp_path / "second").mkdir()
    (tmp_path / "second/0999-old.jpg").write_bytes(b"of an earlier call")
    again = make_images(tmp_path / "second", images=20, seed=3)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in files]
    assert sorted((tmp_path / "second").iterdir()) == again


def test_too_few_images_and_a_missing_package_are_said(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="images=5"):
        make_images(tmp_path, images=5)
    monkeypatch.setattr(photographs, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"poolsieve\[demo\]"):
        load_photographs()


def test_verdicts_are_compared_with_what_was_drawn(tmp_path):
    rows = [("a/0001-drawn-pistol.jpg", "flagged"), ("0002-drawn-shotgun.jpg", "clear")]
    rows += [("0003-coffee.jpg", "flagged"), ("0004-moon.jpg", "clear"), ("0005-drawn-revolver.jpg", "error")]
    with (tmp_path / "v.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("path", "status"), *rows])
    found = compare(tmp_path / "v.csv")
    assert found.found == ("0001-drawn-pistol.jpg",)
    assert found.missed == ("0002-drawn-shotgun.jpg", "0005-drawn-revolver.jpg")
    assert found.false_flags == ("0003-coffee.jpg",)
    assert str(found).startswith("1 of 3 drawn firearms found (missed: 0002")
    assert "1 of 2 photographs flagged (0003-coffee.jpg)" in str(found)


def test_the_demo_runs_as_a_script_and_is_not_in_the_package(tmp_path):
    assert find_spec("poolsieve.demo") is None
    script = Path(images.__file__).parents[1] / "demo.py"
    command = [sys.executable, str(script)]
    done = subprocess.run(
        [*command, "make", str(tmp_path / "images"), "--images", "12"], capture_output=True, text=True
    )
    assert done.stdout == f"made 12 images in {tmp_path / 'images'}\n", done.stderr
    table = tmp_path / "v.csv"
    table.write_text("path,status\n" + "".join(f"{file},clear\n" for file in (tmp_path / "images").iterdir()))
    done = subprocess.run([*command, "check", str(table)], capture_output=True, text=True)
    assert done.stdout.startswith("v.csv: 0 of 8 drawn firearms found"), done.stderr
    assert done.stdout.endswith(", 0 of 4 photographs flagged\n")


def test_the_ways_of_the_demo_are_compared_and_where_pools_do_worse_is_said():
    import demo

    def way(name, found, cost):
        names = tuple("abcdefgh")
        return demo.Judged(name, images.Comparison(names[:found], names[found:], (), 392), cost, 1.0)

    lines = demo.table_lines(
        [way("each by itself", 8, 1.0), way("default plan", 7, 0.5), way("pools, adaptive", 6, 0.6)]
    )
    assert lines[2].split() == ["default", "plan", "7", "of", "8", "0", "0.50", "1.0"]
    assert lines[-1] == (
        "pools, adaptive: costs 0.60 where the default plan costs 0.50 "
        "and misses 1 that the default plan finds"
    )
    better = demo.table_lines([way("default plan", 7, 0.5), way("pools, adaptive", 8, 0.4)])
    assert better[-1].startswith("cost: ")


def test_the_demo_judges_in_every_way_and_shows_pools(tmp_path):
    script = Path(images.__file__).parents[1] / "demo.py"
    folder = tmp_path / "images"
    make_images(folder, images=40)

    def run(*arguments):
        done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    table = run("ways", str(folder), str(tmp_path / "ways"))
    for name in ("each by itself", "default plan", "pools, adaptive", "pools, 50×100 + MIP"):
        assert name in table
    assert sorted(file.stem for file in (tmp_path / "ways").iterdir()) == [
        *("adaptive", "auto", "individual", "oneshot")
    ]
    assert "images flagged by their pools" in run("pools", str(folder), str(tmp_path / "pools.html"))
    assert "-drawn-" in (tmp_path / "pools.html").read_text()
