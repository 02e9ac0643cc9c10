"""What the tests draw is the same on every processor."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from avx2_environment import avx2_environment
from drawn_weights import draw_weights, drawn
from torch import nn

HERE = Path(__file__).parent
DRAWS = r"torch\.(rand|manual_seed|normal|empty\([^)]*\)\.(normal|uniform))|init\.\w*(normal|uniform)_"
HASH = """
import hashlib
from made_bundles import named_backbone, networks_on
digest = hashlib.sha256()
for part in networks_on(named_backbone("tiny"), "gated", (2, 4), "shared").parts().values():
    for value in part.state_dict().values():
        digest.update(value.numpy().tobytes())
print(digest.hexdigest())
"""


def test_no_test_draws_by_torch():
    """Its draws depend on the processor's vector width."""
    files = [file for file in HERE.rglob("*.py") if file != Path(__file__)]
    assert len(files) > 80
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if re.search(DRAWS, line)
    ]
    assert found == []


def test_networks_are_the_same_on_a_narrower_processor():
    path = os.pathsep.join([str(HERE), str(HERE / "bundles"), *sys.path])
    hashes = set()
    for narrower in ({}, avx2_environment(), {"ATEN_CPU_CAPABILITY": "default"}):
        environment = {**os.environ, "PYTHONPATH": path, **narrower}
        done = subprocess.run(
            [sys.executable, "-c", HASH], env=environment, capture_output=True, text=True, check=False
        )
        assert len(done.stdout.strip()) == 2 * hashlib.sha256().digest_size, done.stderr
        hashes.add(done.stdout)
    assert len(hashes) == 1


@pytest.mark.parametrize("seed", range(5))
@torch.no_grad()
def test_deep_networks_stay_alive(seed):
    layers = []
    for inputs in (3, *[16] * 11):
        layers += [nn.Conv2d(inputs, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    network = draw_weights(nn.Sequential(*layers), seed=seed).eval()
    outputs = network(drawn(8, 3, 16, 16, seed=seed))
    assert (outputs > 0).float().mean() > 0.1  # units that are on
    assert 0.02 < outputs.std() < 50
    assert outputs.mean((2, 3)).std(0).max() > 0.01  # images that are told apart
