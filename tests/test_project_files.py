"""What stands beside the package says the truth: workflow, hooks, citation, templates."""

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from poolsieve import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name):
    return yaml.safe_load((ROOT / name).read_text())


def test_the_workflow_makes_what_the_makefile_has():
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M))
    steps = [step for job in read(".github/workflows/test.yml")["jobs"].values() for step in job["steps"]]
    made = {target for step in steps for target in re.findall(r"\bmake ([\w-]+)", step.get("run", ""))}
    assert {"test", "test-avx2", "demo", "wheel"} <= made <= targets
    again = {
        name
        for line in (ROOT / ".ci/run").read_text().splitlines()
        for name in re.findall(r"^make ([\w-]+)", line)
    }
    assert {"test", "test-avx2"} <= again <= targets


def test_the_workflow_tries_every_python_that_is_named():
    tried = read(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d", line)]
    assert tried == named == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_hooks_run_programs_that_are_installed():
    beside = Path(sys.executable).parent
    for repository in read(".pre-commit-config.yaml")["repos"]:
        for hook in repository["hooks"]:
            program = Path(shlex.split(hook["entry"])[0])
            assert program.parent == Path(".venv/bin")
            assert shutil.which(program.name, path=str(beside)), program.name


def test_the_citation_and_the_changelog_are_of_this_version():
    citation = read("CITATION.cff")
    assert citation["version"] == __version__
    released = f"## {__version__} ({citation['date-released']})"
    first = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.M).group()
    assert first in (released, "## Unreleased")
    assert citation["license"] == PROJECT["license"]


@pytest.mark.parametrize("name", ["wrong_behaviour", "wish"])
def test_issue_forms_have_what_github_asks_for(name):
    form = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    identifiers = [part["id"] for part in form["body"]]
    assert len(identifiers) == len(set(identifiers))
    assert all(part["attributes"]["label"] for part in form["body"])
