"""Half precision is tried in a child, whose death is said in words and costs nobody else anything.

What dies here is the real child, at its start: a `sitecustomize` on its path ends it as a processor would.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from poolsieve.engines import open_engine, probing, small_network
from poolsieve.engines.probing import LIMIT, ensure_precision, probe

SOURCES = Path(probing.__file__).parents[2]
DYING = """
import os, signal, sys, time
if "poolsieve.engines.small_network" in sys.orig_argv:
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "None")
    with open(os.environ["CHILDREN"], "a") as log:
        log.write(f"{sys.orig_argv[-2]} {limit}\\n")
    if limit not in os.environ["SURVIVING"].split():
        if os.environ["DEATH"] == "hang":
            time.sleep(60)
        os.kill(os.getpid(), int(os.environ["DEATH"]))
    os._exit(0)
"""
ILLEGAL_INSTRUCTION, KILLED = "4", "9"


class Processor:
    """A processor on which the small network dies; remembers limits under which it was tried."""

    def __init__(self, folder, monkeypatch):
        self._log = folder / "children"
        self._monkeypatch = monkeypatch
        self.path = folder / "path"
        self.path.mkdir()
        (self.path / "sitecustomize.py").write_text(DYING)
        self._log.touch()
        monkeypatch.setenv("CHILDREN", str(self._log))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setenv(LIMIT, "")  # so that what is set is put back
        monkeypatch.delenv(LIMIT)
        monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
        monkeypatch.setattr(probing, "_read_before", {})
        monkeypatch.syspath_prepend(self.path)
        self.survives()

    def survives(self, *limits, death=ILLEGAL_INSTRUCTION):
        self._monkeypatch.setenv("SURVIVING", " ".join(limits))
        self._monkeypatch.setenv("DEATH", death)

    @property
    def tried(self):
        return self._log.read_text().splitlines()


@pytest.fixture
def processor(tmp_path, monkeypatch):
    return Processor(tmp_path, monkeypatch)


ALL_LIMITS = ["None", "AVX512_CORE_FP16", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2"]


@pytest.mark.parametrize("name", ["openvino", "torch"])
def test_a_precision_that_always_dies_is_refused_in_words(made, processor, name):
    bundle = made("lite0-gated").bundle
    for _ in range(2):
        with pytest.raises(ValueError, match=rf"{name} .*'low'.* signal 4 .*AVX2.* use precision='fp32'"):
            open_engine(bundle, name, precision="low")
    assert processor.tried == [f"{name} {limit}" for limit in ALL_LIMITS]  # the second time it was known
    open_engine(bundle, name, precision="fp32")
    assert len(processor.tried) == 5


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_an_int8_bundle_is_run_in_a_child_before_it_is_opened(made, processor, name):
    bundle = made("lite0-gated").bundle
    int8 = replace(bundle, config=replace(bundle.config, precision="int8"))
    with pytest.raises(ValueError, match=rf"{name} .*int8 .*signal 4 .* the bundle that it was made of"):
        open_engine(int8, name)
    assert processor.tried == [f"int8 {limit}" for limit in ALL_LIMITS]
    open_engine(bundle, name)
    assert len(processor.tried) == 5
    processor.survives("None")
    files = {**bundle.config.files, "head.onnx": replace(bundle.config.files["head.onnx"], sha256="0" * 64)}
    other = replace(
        int8, config=replace(int8.config, files=files)
    )  # what is known of some graphs holds for them
    for _ in range(2):
        assert open_engine(other, name).bundle is other
    assert processor.tried[5:] == ["int8 None"]


def test_the_child_runs_the_networks_of_the_bundle(made):
    folder = str(made("lite0-gated").bundle.path)
    assert small_network.main("onnxruntime", "int8", folder) == 0
    assert small_network.main("onnxruntime", "int8", folder + " that is not there") == probing.REFUSED


def test_the_highest_limit_that_survives_is_taken_and_kept(processor):
    processor.survives("AVX512_CORE_BF16", "AVX2")
    for _ in range(2):
        found = probe("openvino", "low")
        assert (found.usable, found.limit) == (True, "AVX512_CORE_BF16")
        assert "signal 4" in found.words
    assert processor.tried == [f"openvino {limit}" for limit in ALL_LIMITS[:3]]


def test_what_is_kept_goes_by_engine_precision_limit_and_processor(processor, monkeypatch):
    processor.survives("None", "AVX2")
    changes = [
        lambda: None,
        lambda: monkeypatch.setenv(LIMIT, "AVX2"),
        lambda: monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2"),
        lambda: monkeypatch.setattr(probing, "_processor", lambda: ["another"]),
        lambda: monkeypatch.setattr(probing.metadata, "version", lambda package: "99"),
    ]
    for number, change in enumerate(changes, 1):
        change()
        for _ in range(2):
            assert probe("torch", "low").usable
        assert len(processor.tried) == number
    assert probe("torch", "lower").usable and probe("openvino", "low").usable
    assert len(processor.tried) == len(changes) + 2


def test_a_record_that_says_nothing_is_not_believed(processor, tmp_path):
    processor.survives("None")
    assert probe("torch", "low").usable
    (record,) = (tmp_path / "cache").rglob("*.json")
    for content in ("", "[]", "{}", '{"usable": 1, "limit": null, "words": ""}', "[" * 99999):
        record.write_text(content)
        assert probe("torch", "low").usable
    assert len(processor.tried) == 6
    assert json.loads(record.read_text())["usable"] is True


def test_without_a_folder_to_keep_it_in_it_is_tried_again(processor, tmp_path, monkeypatch):
    processor.survives("None")
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", "/proc/nothing"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        assert probe("torch", "low").usable
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert probe("torch", "low").usable
    assert len(processor.tried) == 3


def test_without_an_interpreter_to_start_it_is_refused(processor, monkeypatch):
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(ValueError, match=r"no process could be started.*use precision='fp32'"):
        ensure_precision("torch", "low")


@pytest.mark.parametrize(("death", "words"), [(KILLED, "signal 9"), ("hang", "did not end within")])
def test_a_death_that_may_be_chance_is_not_kept(processor, monkeypatch, death, words):
    processor.survives("AVX2", death=death)
    if death == "hang":
        monkeypatch.setattr(probing, "_PATIENCE", 5.0)
        monkeypatch.setattr(probing, "_LIMITS", ("AVX2",))
    first = probe("torch", "low")
    assert first.usable and first.limit == "AVX2" and words in first.words
    processor.survives("None")
    assert probe("torch", "low") == probing.ProbeResult(True, None, "")


@pytest.mark.parametrize(
    ("given", "tried"), [("AVX512_CORE", ["AVX512_CORE", "AVX2"]), ("SSE41", ["SSE41"]), ("AVX2", ["AVX2"])]
)
def test_a_limit_that_somebody_has_set_is_never_raised(processor, monkeypatch, given, tried):
    monkeypatch.setenv(LIMIT, given)
    assert not probe("torch", "low").usable
    assert processor.tried == [f"torch {limit}" for limit in tried]


def test_a_limit_comes_too_late_for_what_was_imported_before(processor, monkeypatch):
    """Also where it has been set for another engine meanwhile."""
    processor.survives("AVX512_CORE_FP16")
    import torch  # noqa: F401

    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    ensure_precision("openvino", "low")
    assert os.environ[LIMIT] == "AVX512_CORE_FP16"
    with pytest.raises(ValueError, match=r"too late .*before the program starts.*precision='fp32'"):
        ensure_precision("torch", "low")
    assert processor.tried[-2:] == ["torch None", "torch AVX512_CORE_FP16"]
    monkeypatch.setattr(probing, "_read_before", {})  # as if the program had started with it
    ensure_precision("torch", "low")
    ensure_precision("openvino", "low")


def run(code, processor, **variables):
    paths = os.pathsep.join([str(processor.path), str(SOURCES)])
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_torch_goes_by_a_limit_that_is_set_in_time(made, processor):
    processor.survives("AVX2")
    code = f"""
import numpy as np
from poolsieve.bundles import load_bundle
from poolsieve.engines import open_engine
bundle = load_bundle({str(made("lite0-gated").bundle.path)!r})
engine = open_engine(bundle, "torch", precision="low", threads=1)
print("shape", engine.front(np.zeros((1, 64, 64, 3), np.uint8)).features.shape)
import torch
torch.nn.functional.conv2d(torch.ones(1, 16, 8, 8), torch.ones(16, 16, 3, 3))
"""
    done = run(code, processor, ONEDNN_VERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert "shape (1," in done.stdout
    assert "isa:Intel AVX2" in done.stdout and "avx512" not in done.stdout.lower()
    assert processor.tried == [f"torch {limit}" for limit in ALL_LIMITS]


KERNELS = """
import sys
import numpy as np
from poolsieve.engines.probing import ensure_precision
if "early" in sys.argv:
    ensure_precision("openvino", "low")
import openvino as ov
layers, core = ov.opset13, ov.Core()
images = layers.parameter([1, 64, 16, 16], np.float32)
weights = layers.constant(np.ones((64, 64, 3, 3), np.float32))
values = layers.convolution(images, weights, [1, 1], [1, 1], [1, 1], [1, 1])
settings = {"INFERENCE_PRECISION_HINT": "f32"}  # the default may be half precision, which needs AVX-512
compiled = core.compile_model(ov.Model([values], [images]), "CPU", settings)
print([str(node.get_rt_info()["primitiveType"].value) for node in compiled.get_runtime_model().get_ops()])
"""


def test_openvino_goes_by_a_limit_that_is_set_in_time(processor):
    processor.survives("AVX2")
    before = run(KERNELS, processor)
    if "avx512" not in before.stdout:
        pytest.skip("this processor has no more than AVX2 anyway")
    after = run(KERNELS.replace("sys.argv", "['early']"), processor)
    assert "avx2" in after.stdout and "avx512" not in after.stdout, after.stderr


def run_command(processor, folder):
    """What `poolsieve moderate --precision low` does with a folder that holds no image."""
    arguments = ["moderate", str(folder), "--bundle", "firearms", "--out", str(folder / "verdicts.csv")]
    arguments += ["--precision", "low", "--engine", "openvino"]
    return run(f"from poolsieve.cli import main; main({arguments})", processor)


def test_the_command_ends_with_status_2_where_all_dies(processor, tmp_path):
    done = run_command(processor, tmp_path)
    assert done.returncode == 2
    assert "signal 4" in done.stderr and "Traceback" not in done.stderr
    assert processor.tried == [f"openvino {limit}" for limit in ALL_LIMITS]


def test_the_command_sets_the_limit_in_time(processor, tmp_path):
    processor.survives("AVX512_CORE_FP16")
    done = run_command(processor, tmp_path)
    assert "too late" not in done.stderr  # OpenVINO was not imported before
    assert processor.tried == ["openvino None", "openvino AVX512_CORE_FP16"]


@pytest.mark.parametrize("name", ["openvino", "torch"])
def test_the_small_network_itself_runs(name):
    command = [sys.executable, "-P", "-m", "poolsieve.engines.small_network", name, "fp32"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
