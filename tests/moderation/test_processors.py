"""The same images get the same verdicts on another kind of processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from avx2_environment import avx2_environment
from drawn_firearms.photographs import load_photographs, photograph_view

from poolsieve.bundles import load_bundle

HERE = Path(__file__).parent
IMAGES = 24
LARGEST = {"openvino": 1.5e-6, "torch": 5e-5}
"""Difference of numbers in records, which have six decimals; torch adds up in another order."""
JUDGE = """
import json, sys
import numpy as np
from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
from poolsieve.moderation import Moderator
from poolsieve.schemes import list_schemes, make_scheme
path, name, images = sys.argv[1:]
bundle, images = load_bundle(path), list(np.load(images))
engine = open_engine(bundle, name, threads=1)
found = {}
for scheme in list_schemes():
    if scheme in ("glance", "early_exit") and bundle.config.glance is None:
        continue
    options = {"pools_per_image": 2} if scheme == "oneshot" else {}
    judge = Moderator(bundle, engine, make_scheme(scheme, bundle.config.pool_sizes, **options), seed=3)
    found[scheme] = [verdict.to_json() for verdict in judge.moderate(images)]
if name == "openvino":
    graph = engine._core.compile_model(engine._core.read_model(bundle.read("individual.onnx")), "CPU")
    kernels = {str(node.get_rt_info()["primitiveType"].value) for node in graph.get_runtime_model().get_ops()}
else:
    import torch
    kernels = {torch.backends.cpu.get_cpu_capability()}
print(json.dumps({"verdicts": found, "kernels": sorted(kernels)}))
"""


def has_wider_instructions():
    return "NPY_DISABLE_CPU_FEATURES" in avx2_environment()


def judged(bundle, engine, images, environment):
    command = [sys.executable, "-c", JUDGE, str(bundle), engine, str(images)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Images of a bundle's size, in a file."""
    folder, real = tmp_path_factory.mktemp("images"), list(load_photographs().values())

    def write(size):
        rng = np.random.default_rng(0)
        views = [np.asarray(photograph_view(real[k % len(real)], size, rng)) for k in range(IMAGES)]
        np.save(folder / f"{size}.npy", np.stack(views))
        return folder / f"{size}.npy"

    return write


@pytest.mark.skipif(not has_wider_instructions(), reason="this processor has no more than AVX2 anyway")
@pytest.mark.parametrize(
    ("kind", "engine"),
    [("firearms", "openvino"), ("cars", "openvino"), ("small", "openvino"), ("lite0", "torch")],
)
def test_a_processor_without_avx512_gives_the_same_verdicts(kind, engine, photographs, small, made, capsys):
    bundle = (
        made("lite0-gated").bundle if kind == "lite0" else small if kind == "small" else load_bundle(kind)
    )
    images = photographs(bundle.config.input_size)
    plain = {name: value for name, value in os.environ.items() if name not in avx2_environment()}
    wide = judged(bundle.path, engine, images, plain)
    narrow = judged(bundle.path, engine, images, {**plain, **avx2_environment()})
    assert wide["kernels"] != narrow["kernels"]  # else nothing would be compared
    assert not any("512" in kernel for kernel in narrow["kernels"] if "brg" in kernel)
    assert len({verdict["score"] for verdict in wide["verdicts"]["individual"]}) > 4
    largest = 0.0
    for scheme, verdicts in wide["verdicts"].items():
        for one, other in zip(verdicts, narrow["verdicts"][scheme], strict=True):
            largest = max([largest, *numbers_apart(one, other)])
    with capsys.disabled():
        print(f"\n{kind} on {engine}: largest difference of recorded numbers {largest:.1e}")
    assert largest < LARGEST[engine]


def numbers_apart(one, other):
    """Differences of all fractions in two records, which are equal in everything else."""
    if isinstance(one, float) and isinstance(other, float):
        yield abs(one - other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            yield from numbers_apart(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for part, part_of_other in zip(one, other, strict=True):
            yield from numbers_apart(part, part_of_other)
    else:
        assert one == other
