"""The wheel holds all that the package needs, and works where the repository is not."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from drawn_firearms.photographs import load_photographs

from poolsieve import __version__

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/poolsieve"
EDITION = Path("poolsieve/bundles/shipped/firearms/int8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools would put files of an earlier build into the wheel, too."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (source / "src" / EDITION).mkdir(exist_ok=True)  # bundles may hold folders
    (source / "src" / EDITION / "held").touch()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--wheel-dir", out, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Runs Python in an empty folder with the wheel's files, and without those of the repository."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert Path(run("-c", "import poolsieve; print(poolsieve.__file__)")).is_relative_to(site)
    return run


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    held = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    own = [file for file in PACKAGE.rglob("*") if file.is_file()]
    missing = [
        file
        for file in own
        if file.suffix not in (".pyc", ".nbi", ".nbc")  # compiled here
        and file.relative_to(PACKAGE.parent) not in held
    ]
    assert not missing
    assert EDITION / "held" in held
    assert {"onnx", "html", "css", "js", "mako"} <= {path.suffix[1:] for path in held}


def test_the_command_starts_and_moderates_with_a_bundle_of_the_wheel(run, tmp_path):
    assert run("-m", "poolsieve", "--version") == f"poolsieve {__version__}\n"
    for name, picture in list(load_photographs().items())[:3]:
        picture.save(tmp_path / f"{name}.png")
    out = tmp_path / "verdicts.csv"
    files = ["--out", str(out), "--report", str(tmp_path / "report.html")]
    run("-m", "poolsieve", "moderate", str(tmp_path), "--bundle", "firearms", *files)
    assert [line.split(",")[2] for line in out.read_text().splitlines()] == ["status", *["clear"] * 3]
    assert "<html" in (tmp_path / "report.html").read_text()


def test_the_store_migrates_by_files_of_the_wheel(run, tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    run("-c", f"from poolsieve.store import Store; Store({url!r})")
    assert (tmp_path / "store.db").stat().st_size > 0


def test_the_shell_completes_commands_options_and_schemes(run, monkeypatch):
    def completed(line):
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        return run("-m", "poolsieve").split()

    monkeypatch.setenv("_POOLSIEVE_COMPLETE", "complete_bash")
    assert completed("poolsieve mod") == ["moderate"]
    assert completed("poolsieve moderate --contact") == ["--contact-sheet"]
    assert {"auto", "oneshot"} <= set(completed("poolsieve moderate --scheme "))
