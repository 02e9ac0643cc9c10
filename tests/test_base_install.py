"""With the base dependencies alone: designs and decoders work, and everything else says what it needs."""

import subprocess
import sys

import pytest

EXTRAS = (
    "PIL",
    "openvino",
    "onnxruntime",
    "onnx",
    "safetensors",
    "torch",
    "sklearn",
    "matplotlib",
    "pyarrow",
    "jinja2",
)
SCRIPT = """
import sys
for name in sys.argv.pop(1).split():
    sys.modules[name] = None  # importing it fails
from poolsieve.cli import main
main(sys.argv[1:])
"""


def poolsieve(*arguments, without=EXTRAS):
    command = [sys.executable, "-c", SCRIPT, " ".join(without), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["moderate", "--help"],
        ["design", "-n", "24", "-r", "4", "-c", "3"],
        ["simulate", "--chunks", "5", "--tuning-chunks", "0", "-p", "0.01", "-d", "comp", "-d", "bp"],
    ],
)
def test_what_needs_no_extra_works(arguments):
    done = poolsieve(*arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["moderate", ".", "--bundle", "b", "--out", "v.csv"], "poolsieve[moderate]"),
        (["train", "data.csv", "--out", "run"], "poolsieve[train]"),
        (["evaluate", "b", "data.csv", "--report", "r"], "poolsieve[moderate]"),
        (["design", "-n", "24", "-r", "4", "-c", "3", "--figure", "d.png"], "poolsieve[plot]"),
        (["simulate", "--out", "rows.parquet"], "poolsieve[parquet]"),
    ],
)
def test_what_needs_an_extra_names_it(arguments, extra):
    done = poolsieve(*arguments)
    assert done.returncode == 2
    assert extra in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["moderate", "nowhere", "--bundle", "none", "--out", "v.csv", "--report", "r.html"],
        ["evaluate", "none", "nowhere.csv", "--report", "r"],
    ],
)
def test_what_pages_need_is_missed_before_the_work(arguments):
    done = poolsieve(*arguments, without=["jinja2"])
    assert done.returncode == 2
    assert "reports need Jinja2: pip install 'poolsieve[moderate]'" in " ".join(done.stderr.split())
