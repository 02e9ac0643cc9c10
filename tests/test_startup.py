"""What stands between the command and the first verdict: heavy imports, and caches that cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import poolsieve

SLOW_TO_IMPORT = (
    *("torch", "matplotlib", "sklearn", "pandas", "pyarrow", "onnx", "onnxruntime", "jinja2"),
    *("scipy.stats", "scipy.optimize"),
    "openvino_telemetry",  # tells Intel's server that OpenVINO is used
)
MODERATE = f"""
import sys
from poolsieve.cli import main
try:
    main(["moderate", *sys.argv[1:]])
except SystemExit as left:
    assert not left.code, left.code
loaded = [name for name in {SLOW_TO_IMPORT!r} if name in sys.modules]
assert not loaded, f"imported on the way to the first verdict: {{loaded}}"
"""
MODERATION_NEEDS_NOT = (
    "poolsieve.evaluation",
    "poolsieve.training",
    "poolsieve.networks",
    "torch",
    "matplotlib",
)
IMPORT = f"""
import importlib, pkgutil, sys
import poolsieve.moderation
for module in pkgutil.iter_modules(poolsieve.moderation.__path__, "poolsieve.moderation."):
    importlib.import_module(module.name)  # the package itself imports next to nothing until it is asked
loaded = [name for name in {MODERATION_NEEDS_NOT!r} if name in sys.modules]
assert not loaded, f"imported with poolsieve.moderation: {{loaded}}"
"""
HELP_NEEDS_NOT = ("numba", "scipy.special", "scipy.sparse", "PIL", *SLOW_TO_IMPORT)
HELP = f"""
import sys
from poolsieve.cli import main
try:
    main(["moderate", "--help"])
except SystemExit as left:
    assert not left.code, left.code
loaded = [name for name in {HELP_NEEDS_NOT!r} if name in sys.modules]
assert not loaded, f"imported for the help: {{loaded}}"
"""


@pytest.fixture(scope="module")
def bundle(made):
    return made("tiny-gated").bundle.path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(12):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(folder / f"{number}.jpg")
    return folder


def run_moderate(source, *arguments, **environment):
    command = [sys.executable, "-c", MODERATE, *map(str, arguments)]
    settings = {**os.environ, "PYTHONPATH": str(source), **environment}
    return subprocess.run(command, env=settings, capture_output=True, text=True)


def test_help_that_follows_from_the_stages_needs_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--clear-below" in done.stdout


def test_moderation_needs_nothing_of_training_and_evaluation():
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scheme", ["adaptive", "oneshot"])
def test_nothing_heavy_is_imported_on_the_way_to_a_verdict(bundle, photos, tmp_path, scheme):
    out = tmp_path / "v.jsonl"
    options = ("--bundle", bundle, "--out", out, "--scheme", scheme, "--pools-per-image", 2)
    done = run_moderate(Path(poolsieve.__file__).parents[1], photos, *options)
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 12


def test_a_read_only_install_without_a_cache_folder_gives_verdicts(bundle, photos, tmp_path):
    """Neither beside the package nor below the home can anything be written, not even by root."""
    package = tmp_path / "install/poolsieve"
    ignored = shutil.ignore_patterns("__pycache__", "shipped")
    shutil.copytree(Path(poolsieve.__file__).parent, package, ignore=ignored)
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_bytes(b"a file where numba wants a folder")
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), str(blocked))
    out = tmp_path / "v.jsonl"
    options = ("--bundle", bundle, "--out", out, "--scheme", "dorfman")
    done = run_moderate(package.parent, photos, *options, **homes, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 12
    assert not list(tmp_path.rglob("*.nbi"))
