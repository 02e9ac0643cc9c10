"""`poolsieve moderate` with a bundle that holds an int8 edition: what was settled at first holds."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from poolsieve.bundles import load_bundle
from poolsieve.cli.main import app
from poolsieve.engines import editions
from poolsieve.engines.probing import LIMIT
from poolsieve.moderation.verdict_files import VerdictLog


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for k in range(30):
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{k:02d}.png")
    return tmp_path / "images"


@pytest.fixture
def announces(monkeypatch, tmp_path):
    """Makes a processor of this one that announces instructions for int8, or none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(LIMIT, raising=False)
    return lambda *names: monkeypatch.setattr(editions, "_announced", lambda: set(names))


def moderate(holder, images, *more):
    options = ["moderate", images, "--bundle", holder, "--scheme", "individual", "--threads", 1, *more]
    return CliRunner().invoke(app, [str(option) for option in options])


@pytest.mark.parametrize("first", [("avx2",), ()])
def test_a_run_that_is_resumed_on_another_processor_keeps_to_its_precision(
    holder, images, announces, tmp_path, first
):
    out = tmp_path / "v.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VerdictLog, "finish", lambda log, **_: (_ for _ in ()).throw(OSError("killed")))
        announces(*first)
        assert str(moderate(holder, images, "--out", out).exception) == "killed"
    announces(*(() if first else ("avx2",)))
    precision = "int8" if first else "fp32"
    for other in {"fp32", "int8"} - {precision}:
        refused = moderate(holder, images, "--out", out, "--resume", "--precision", other)
        assert f"a run with precision '{precision}', not '{other}'" in str(refused.exception)
    done = moderate(holder, images, "--out", out, "--resume")
    assert done.exit_code == 0, done.exception
    bundle = load_bundle(holder)
    wanted = bundle.edition("int8") if first else bundle
    assert {json.loads(line)["bundle"] for line in out.read_text().splitlines()} == {wanted.hash}


def test_so_does_a_run_in_parts(holder, images, announces, tmp_path):
    run, parts = tmp_path / "run", ("--on", "local", "--chunk", 10, "--segment", 1)
    announces("avx2")
    done = moderate(holder, images, "--out", run, *parts)
    assert done.exit_code == 0, done.exception
    assert json.loads((run / "run.json").read_text())["options"]["precision"] == "int8"
    (run / "_SUCCESS").unlink()
    (run / "parts" / "00000001.parquet").unlink()
    announces()
    refused = moderate(holder, images, "--out", run, *parts, "--precision", "fp32")
    assert "is a run with" in str(refused.exception)
    done = moderate(holder, images, "--out", run, *parts)
    assert done.exit_code == 0, done.exception
    settings = json.loads((run / "run.json").read_text())
    assert settings["bundle_hash"] == load_bundle(holder).edition("int8").hash
