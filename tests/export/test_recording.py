"""Recording a real bundle on labelled files."""

import numpy as np
import pytest
import typer
from altered_bundles import copy_bundle, put, sign
from PIL import Image
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle, verify_bundle
from poolsieve.bundles.recordings import Recordings
from poolsieve.cli.plan import plan as plan_command
from poolsieve.engines import open_engine
from poolsieve.export.recording import record_bundle
from poolsieve.moderation import Moderator
from poolsieve.progress import Reporter
from poolsieve.schemes import LikelihoodModel


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("labelled")
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for label, number in (("0", 30), ("1", 9)):
            folder = root / split / label
            folder.mkdir(parents=True)
            for k in range(number if split == "val" else 2):
                Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{k}.png")
    return root


@pytest.fixture(scope="module")
def recorded(tiny_bundle, data, tmp_path_factory):
    folder = copy_bundle(tiny_bundle.path, tmp_path_factory.mktemp("recorded") / "copy")
    return record_bundle(folder, data, threads=1, reporter=Reporter(quiet=True))


def test_a_recorded_bundle_is_whole_and_says_what_its_networks_say(recorded, tiny_bundle, data):
    assert verify_bundle(recorded.path) == []
    assert recorded.hash == load_bundle(recorded.path).hash != tiny_bundle.hash
    recordings = recorded.recordings()
    assert (recordings.bad.sum(), (~recordings.bad).sum()) == (9, 30)
    files = sorted((data / "val" / "1").iterdir())
    pixels = np.stack([np.asarray(Image.open(file)) for file in files])
    engine = open_engine(recorded, threads=1)
    logits = engine.individual(engine.front(pixels).features).logits
    scores = LikelihoodModel(recorded.calibration).image_scores(logits)
    assert np.sort(recordings.scores[recordings.bad]) == pytest.approx(np.sort(scores), abs=1e-5)


def test_bundles_without_recordings_load_and_say_how_to_make_them(tiny_bundle):
    assert not tiny_bundle.has_recordings
    with pytest.raises(ValueError, match="poolsieve bundles record"):
        tiny_bundle.recordings()


def test_damaged_recordings_are_found(recorded, tmp_path):
    folder = copy_bundle(recorded.path, tmp_path / "damaged")
    put(folder / "recordings.safetensors", b"x")
    with pytest.raises(ValueError, match=r"recordings\.safetensors is damaged"):
        load_bundle(folder)
    sign(folder, "recordings.safetensors")
    with pytest.raises(ValueError, match="not a file of recordings"):
        load_bundle(folder)
    wrong = Recordings.from_bytes((recorded.path / "recordings.safetensors").read_bytes())
    pool = wrong.pools[-1]
    widths = [(0, 0)] * 3 + [(0, 1)]
    layout = type(pool)(
        pool.images[:, : 5 * (pool.images.shape[1] // 5)],
        np.pad(pool.likelihoods, widths)[:, :, : pool.images.shape[1] // 5],
        pool.counts[:, :, : pool.images.shape[1] // 5],
        pool.band,
    )
    put(
        folder / "recordings.safetensors",
        Recordings(wrong.bad, wrong.scores, wrong.heads, (layout,)).to_bytes(),
    )
    sign(folder, "recordings.safetensors")
    with pytest.raises(ValueError, match="recorded with pools of"):
        load_bundle(folder)


def test_the_command_plans_from_a_recorded_bundle(recorded, tmp_path):
    from poolsieve.planning import load_plan

    file, picture = tmp_path / "plan.json", tmp_path / "frontier.png"
    result = run_plan(recorded.path, "--prevalence", "0.05", "--out", file, "--figure", picture)
    assert result.exit_code == 0, result.output
    assert "individual" in result.output
    assert picture.stat().st_size > 1000
    plan = load_plan(file, bundle=recorded.hash)
    moderator = Moderator.load(recorded.path, plan=file, threads=1)
    assert moderator.description.startswith(plan.scheme)
    assert run_plan(recorded.path, "--prevalence", "0.05", "--measured").exit_code == 0
    result = run_plan(recorded.path, "--prevalence", "0.05", "--front-share", "0.22")
    assert "projection" in result.output
    result = run_plan(recorded.path, "--prevalence", "0.05", "--sensitivity", "1", "--specificity", "1")
    assert "no scheme reaches" in result.output


def test_moderating_follows_plans_by_default(recorded, tiny_bundle, data, caplog):
    moderator = Moderator.load(recorded.path, threads=1, prevalence=0.02)
    assert moderator.description.startswith("auto(prevalence=0.02")
    verdicts = list(moderator.moderate(data / "val"))
    assert len(verdicts) == 39
    with pytest.raises(ValueError, match="auto chooses pool_size itself"):
        Moderator.load(recorded.path, threads=1, pool_size=4)
    assert "no recordings" not in caplog.text
    plain = Moderator.load(tiny_bundle.path, threads=1, engine="openvino")
    assert plain.description.startswith("adaptive(")
    assert "no recordings" in caplog.text


def run_plan(*arguments):
    app = typer.Typer()
    app.command()(plan_command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
