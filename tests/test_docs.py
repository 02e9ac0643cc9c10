import dataclasses
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from poolsieve.cli.main import app
from poolsieve.planning.plans import load_plan
from poolsieve.schemes import Glance, Pools, Scheme, Test, list_schemes, list_stages, make_scheme, make_stage

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "experiments").glob("*.md"))]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def _anchors(page):
    """What headings can be linked to by, in GitHub's way."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    names = [re.sub(r"[`*]", "", heading).strip().lower() for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", name).replace(" ", "-") for name in names}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
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
            command.make_context(words[1], [], resilient_parsing=True)  # options of schemes come with it
            known = {
                name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
            }
            given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert given <= known, f"{page.name}: {line}"


def _is_word(text):
    return any(letter.isalnum() for letter in text)  # the bars of a table are none


def test_the_docs_are_short():
    words = {page: sum(map(_is_word, page.read_text().split())) for page in PAGES}
    assert words[ROOT / "README.md"] < 900
    assert sum(count for page, count in words.items() if page.parent == ROOT / "docs") <= 15_000


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
    from poolsieve.decoders import decoder

    monkeypatch.setattr(decoder, "_REGISTRY", dict(decoder._REGISTRY))
    names = {"__name__": "__main__"}  # so that it checks itself
    for example in own_decoder_examples():
        exec(example, names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["least-count", "mip"]
    assert all(float(line.split()[1]) > 0.5 for line in lines)


def test_the_stage_of_the_examples_keeps_the_contract_and_moderates(monkeypatch):
    import numpy as np
    from planted import PlantedEngine, planted_bundle, planted_pixels

    from poolsieve.moderation import Moderator
    from poolsieve.schemes import Scheme, Test, cost_model, stages

    monkeypatch.setattr(stages, "_REGISTRY", dict(stages._REGISTRY))
    monkeypatch.setattr(cost_model, "_PARTS", dict(cost_model._PARTS))
    example = ROOT / "examples" / "both_ways.py"
    names = runpy.run_path(str(example), run_name="__main__")  # so that it checks itself
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


def rows_of(page, first):
    """Cells of the table whose heading begins with `first`."""
    table = re.search(rf"^\| {re.escape(first)} \|.*?\n\n", page.read_text(), re.S | re.M).group()
    lines = table.strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


MODERATING = ROOT / "docs" / "moderating.md"


def test_the_docs_list_the_stages_of_every_scheme():
    told = {row[0].split("`")[1]: row[1] for row in rows_of(MODERATING, "`--scheme`")}
    assert told.pop("auto")
    made = {name: make_scheme(name, (4, 8)).stages for name in list_schemes()}
    assert told == {name: " → ".join(stage.name for stage in stages) for name, stages in made.items()}


def test_the_docs_list_every_stage_with_its_parameters_and_defaults():
    told = {row[0].strip("`"): row[2] for row in rows_of(MODERATING, "stage")}
    assert sorted(told) == list_stages()
    assert told.pop("head") == "the same"  # as of the stage above it
    for name, text in told.items():
        defaults = {one.name: one.default for one in dataclasses.fields(make_stage(name))}
        assert set(re.findall(r"`(\w+)`", text)) - {"mip", "bp"} == set(defaults), name
        for parameter, value in re.findall(r"`(\w+)` (\.?\d+|true|false|`mip`)", text):
            assert json.loads(value.replace(".", "0.").replace("`", '"')) == defaults[parameter], parameter


def test_the_stages_of_the_docs_are_a_plan(tmp_path):
    text = re.search(r"^```json\n(.*?)^```", MODERATING.read_text(), re.S | re.M).group(1)
    (tmp_path / "plan.json").write_text(text)
    scheme = load_plan(tmp_path / "plan.json", bundle="any")
    assert [stage.name for stage in scheme.stages] == ["glance", "head", "test"]


def test_the_scheme_of_the_docs_is_made():
    line = re.search(r"^scheme = (Scheme\(.*\))$", MODERATING.read_text(), re.M).group(1)
    names = {"Scheme": Scheme, "Glance": Glance, "Pools": Pools, "Test": Test}
    assert eval(line, names) == Scheme((Glance(), Pools(pool_size=4), Test()), prevalence=0.01)


def test_the_words_of_the_glossary_are_sorted_and_used():
    glossary = ROOT / "docs" / "glossary.md"
    rows = re.findall(r"^- \*\*(.+?)\*\*: .+$", glossary.read_text(), re.M)
    assert rows == sorted(rows) and len(rows) > 40
    pages = " ".join(page.read_text() for page in PAGES if page != glossary)
    for word in (word for row in rows for word in row.split(", ")):
        assert re.search(rf"\b{word}", pages, re.I), word
