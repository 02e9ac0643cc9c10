import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from poolsieve.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def _anchors(page):
    """What headings can be linked to by, in GitHub's way."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    names = [re.sub(r"[`*]", "", heading).strip().lower() for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", name).replace(" ", "-") for name in names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text()):
        assert anchor in _anchors(page.parent / target if target else page), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_the_commands_of_the_docs_exist(page):
    root = typer.main.get_command(app)
    for _, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.partition("  #")[0].split()
            if words[:1] != ["poolsieve"]:
                continue
            command = root.commands[words[1]]
            if hasattr(command, "commands"):
                command = command.commands[words[2]]
            known = {
                name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
            }
            given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert given <= known, f"{page.name}: {line}"


def test_the_python_example_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text()
    example = re.search(r"## Only the mathematics.*?```python\n(.*?)```", text, re.S).group(1)
    exec(example, {})
    assert capsys.readouterr().out == "(array([0]), array([17]))\n"


def own_decoder_examples():
    text = (ROOT / "docs" / "decoding.md").read_text()
    part = re.search(r"^## A decoder of your own$(.*?)^## ", text, re.S | re.M).group(1)
    return re.findall(r"```python\n(.*?)```", part, re.S)


def test_the_decoder_of_the_docs_keeps_the_contract_and_is_compared(capsys, monkeypatch):
    from poolsieve.decoders import base

    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    names = {"__name__": "__main__"}  # so that it checks itself
    for example in own_decoder_examples():
        exec(example, names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["least-count", "mip"]
    assert all(float(line.split()[1]) > 0.5 for line in lines)


def test_the_stage_of_the_docs_keeps_the_contract_and_moderates(monkeypatch):
    import numpy as np
    from planted import PlantedEngine, planted_bundle, planted_pixels

    from poolsieve.moderation import Moderator
    from poolsieve.schemes import Scheme, Test, cost, stages

    monkeypatch.setattr(stages, "_REGISTRY", dict(stages._REGISTRY))
    monkeypatch.setattr(cost, "_PARTS", dict(cost._PARTS))
    text = (ROOT / "docs" / "moderating.md").read_text()
    names = {"__name__": "__main__"}  # so that it checks itself
    exec(re.search(r"^## Stages of your own$.*?```python\n(.*?)```", text, re.S | re.M).group(1), names)
    truth = np.arange(50) == 7
    scheme = Scheme((names["BothWays"](), Test()))
    moderator = Moderator(planted_bundle(), PlantedEngine(), scheme, seed=1)
    verdicts = list(moderator.moderate(list(planted_pixels(truth))))
    assert [verdict.flagged for verdict in verdicts] == truth.tolist()
    assert {verdict.decided_by for verdict in verdicts} == {"both_ways", "individual"}


def test_the_decoder_of_the_docs_is_a_plugin(tmp_path):
    (tmp_path / "my_decoder.py").write_text(own_decoder_examples()[0])
    arguments = ["--plugin", "my_decoder.py:LeastCount", "-d", "comp", "-p", "0.02", "--chunks", "50"]
    done = subprocess.run(
        [sys.executable, "-m", "poolsieve", "simulate", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "least-count" in done.stdout and "comp" in done.stdout
