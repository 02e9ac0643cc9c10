"""The notebooks of examples/ run, in small."""

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "1-moderating-a-folder": {"IMAGES": 40},
    "2-group-testing": {"CHUNKS": 40},
    "3-two-folders-to-a-bundle": {"IMAGES": 100, "EPOCHS": 1},
}


def in_small(notebook, values):
    """The notebook with other values in the cell of its parameters."""
    (cell,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    for name, value in values.items():
        cell.source, changed = re.subn(rf"^{name} = \w+", f"{name} = {value}", cell.source, flags=re.M)
        assert changed == 1, name
    return notebook


def printed(notebook):
    """All that its cells print."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs if output.get("name") == "stdout")


def pictures(notebook):
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", ()) for output in outputs)


def run(name, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # threads of torch wait for each other
    notebook = in_small(nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4), SMALL[name])
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}})
    return client.execute()


def test_no_notebook_is_left_out():
    assert {file.stem for file in EXAMPLES.glob("*.ipynb")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_outputs_are_cleared(name):
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]


def test_a_folder_is_moderated(monkeypatch):
    notebook = run("1-moderating-a-folder", monkeypatch)
    said = printed(notebook)
    assert "-drawn-revolver.jpg" in said and "tested on its own" in said
    found = dict(re.findall(r"^(\w+) +cost \d\.\d\d, \d+ flagged, (\d) of them drawn", said, re.M))
    assert set(found) == {"individual", "auto", "adaptive", "oneshot"} and int(found["individual"]) > 4, said
    assert "images report.html verdicts.csv" in said
    assert pictures(notebook) == 1


def test_designs_and_a_decoder_of_one_s_own_are_compared(monkeypatch):
    notebook = run("2-group-testing", monkeypatch)
    assert re.search(r"disjunctness, exact +3\n", printed(notebook))
    assert pictures(notebook) == 2


def test_two_folders_become_a_bundle_that_moderates(monkeypatch):
    notebook = run("3-two-folders-to-a-bundle", monkeypatch)
    said = printed(notebook)
    assert "too few to be sure" in said
    found = dict(re.findall(r"^(each by itself|planned) +(\d) of 4 found", said, re.M))
    assert set(found) == {"each by itself", "planned"} and int(found["each by itself"]) >= 2, said
