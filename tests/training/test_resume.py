"""Killing a run at any moment and starting it again ends with the same weights."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys
import time
from pathlib import Path
import torch
from drawn_shapes import small_backbone
from poolsieve.training import Optimization, TrainingSettings, inputs
from poolsieve import row_cache
from poolsieve.progress import Reporter
from poolsieve.training.run import train

data, out, optimizer, front, seconds = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
torch.set_num_threads(1)
row_cache.BLOCK_ROWS = 16
render = inputs.ViewSet.render
def slowly(self, file, digest):
    time.sleep(float(seconds))
    return render(self, file, digest)
inputs.ViewSet.render = slowly
learns = {"front": "tuned", "tune_from": "first", "front_epochs": 8} if front == "tuned" else {}
if front == "fresh":
    learns = {"fresh_views": 1}
settings = TrainingSettings(
    pool_sizes=(4,), views=2, individual_epochs=2, epochs=2, pools_per_epoch=320, batch_images=8,
    batch_pools=16, validation_pools=40, test_pools=40, **learns,
    optimization=Optimization(optimizer=optimizer),
)
train(data, out, settings, cache_dir=out / "cache", backbone=small_backbone())
"""


@pytest.fixture(scope="module")
def start(task):
    def call(out, optimizer, front, seconds=0.0):
        here = Path(__file__).parent
        path = os.pathsep.join([str(here), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, task, out, optimizer, front, str(seconds)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    return call


def finish(process):
    _, messages = process.communicate(timeout=200)
    assert process.returncode == 0, messages
    return messages


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    """Runs that nothing disturbs, by optimizer and front."""
    runs = {}

    def of(optimizer, front):
        if (optimizer, front) not in runs:
            out = tmp_path_factory.mktemp("whole") / "run"
            finish(start(out, optimizer, front))
            runs[optimizer, front] = out
        return runs[optimizer, front]

    return of


def kill_once_there(process, folder, pattern, delay):
    for _ in range(6000):
        if any(folder.glob(pattern)) or process.poll() is not None:
            break
        time.sleep(0.02)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "results.json").exists()


def require_equal(broken, whole):
    for name in ("model.safetensors", "results.json", "calibration.json"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name
    assert json.loads((broken / "settings.json").read_text()) == json.loads(
        (whole / "settings.json").read_text()
    )
    kept = [sorted(file.relative_to(out) for file in (out / "phases").rglob("*")) for out in (whole, broken)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("optimizer", "front", "phase"),
    [("adamw", "frozen", "counting-4"), ("sgd", "tuned", "front"), ("adamw", "fresh", "counting-4")],
)
def test_a_killed_run_ends_as_an_uninterrupted_one(start, uninterrupted, tmp_path, optimizer, front, phase):
    whole, broken = uninterrupted(optimizer, front), tmp_path / "broken"
    process = start(broken, optimizer, front)
    kill_once_there(process, broken, f"phases/{phase}/last.safetensors", delay=0.15)  # in the next epoch
    assert phase in (broken / "history.csv").read_text()

    messages = finish(start(broken, optimizer, front))
    assert f"{phase}: going on after epoch" in messages
    if front == "frozen":
        assert "individual: trained already, epoch" in messages
    require_equal(broken, whole)


def test_a_run_killed_while_caching_ends_as_an_uninterrupted_one(start, uninterrupted, tmp_path):
    whole, broken = uninterrupted("adamw", "frozen"), tmp_path / "broken"
    kill_once_there(start(broken, "adamw", "frozen", 0.03), broken, "cache/*/blocks.json", delay=0.0)
    (folder,) = (broken / "cache").iterdir()
    assert len(json.loads((folder / "blocks.json").read_text())) < 6

    finish(start(broken, "adamw", "frozen"))
    require_equal(broken, whole)
    for name in ("features.rows", "blocks.json"):
        assert (folder / name).read_bytes() == (whole / "cache" / folder.name / name).read_bytes()
