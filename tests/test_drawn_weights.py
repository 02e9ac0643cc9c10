"""What the tests draw is the same on every processor."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from avx2_environment import avx2_environment
from drawn_weights import draw_weights, drawn
from torch import nn

HERE = Path(__file__).parent
DRAWS = r"torch\.(rand|manual_seed|normal|empty\([^)]*\)\.(normal|uniform))|init\.\w*(normal|uniform)_"
SAVE = """
import sys
import numpy as np
from made_bundles import named_backbone, networks_on
parts = networks_on(named_backbone("tiny"), "gated", (2, 4), "shared").parts()
tensors = {f"{key}.{name}": value for key, part in parts.items() for name, value in part.state_dict().items()}
np.savez(sys.argv[1], **tensors)
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


def test_networks_are_the_same_on_a_narrower_processor(tmp_path):
    """Weights bit by bit; what norms have seen, which torch computes, up to rounding."""
    path = os.pathsep.join([str(HERE), str(HERE / "bundles"), *sys.path])
    found = []
    for narrower in ({}, avx2_environment(), {"ATEN_CPU_CAPABILITY": "default"}):
        file = tmp_path / f"{len(found)}.npz"
        environment = {**os.environ, "PYTHONPATH": path, **narrower}
        subprocess.run([sys.executable, "-c", SAVE, str(file)], env=environment, check=True)
        found.append(dict(np.load(file)))
    first, *others = found
    for other in others:
        assert other.keys() == first.keys()
        for name, values in first.items():
            np.testing.assert_allclose(other[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
            assert values.ndim < 2 or np.array_equal(other[name], values), name


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
