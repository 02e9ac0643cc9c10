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
from pathlib import Path
import torch
from drawn_shapes import small_backbone
from poolsieve.training import Optimization, TrainingPlan
from poolsieve.progress import Reporter
from poolsieve.training.run import train

torch.set_num_threads(1)
plan = TrainingPlan(
    pool_sizes=(4,), views=2, individual_epochs=3, epochs=3, pools_per_epoch=320, batch_images=8,
    batch_pools=16, validation_pools=40, test_pools=40, optimization=Optimization(optimizer=sys.argv[3]),
)
data, out = Path(sys.argv[1]), Path(sys.argv[2])
train(data, out, plan, cache_dir=out / "cache", backbone=small_backbone())
"""


@pytest.fixture
def start(task):
    def call(out, optimizer):
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, task, out, optimizer],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    return call


def finish(process):
    _, messages = process.communicate(timeout=200)
    assert process.returncode == 0, messages
    return messages


@pytest.mark.parametrize(("optimizer", "phase"), [("adamw", "counting-4"), ("sgd", "individual")])
def test_a_killed_run_ends_as_an_uninterrupted_one(start, tmp_path, optimizer, phase):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finish(start(whole, optimizer))

    process = start(broken, optimizer)
    checkpoint = broken / "phases" / phase / "last.safetensors"
    for _ in range(2000):
        if checkpoint.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(0.15)  # into the next epoch
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (broken / "results.json").exists()

    messages = finish(start(broken, optimizer))
    assert f"{phase}: going on after epoch" in messages
    for name in ("model.safetensors", "results.json", "calibration.json"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name
    assert json.loads((broken / "plan.json").read_text()) == json.loads((whole / "plan.json").read_text())
    kept = [sorted(file.name for file in (out / "phases" / phase).iterdir()) for out in (whole, broken)]
    assert kept[0] == kept[1]
