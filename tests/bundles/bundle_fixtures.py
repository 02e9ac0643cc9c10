"""A tiny trained run and its bundle, for tests of bundles and of export."""

import json
import os
import shutil

import pytest
import torch
from altered_bundles import change_config, copy_bundle

from poolsieve.bundles.config import EDITIONS
from poolsieve.export.bundle_writing import add_edition


@pytest.fixture(scope="session")
def tiny_run(made):
    return made("tiny-gated").run


@pytest.fixture(scope="session")
def tiny_bundle(made):
    return made("tiny-gated").bundle


@pytest.fixture
def folder(tiny_bundle, tmp_path):
    """A copy of a whole bundle, to be damaged."""
    return copy_bundle(tiny_bundle.path, tmp_path / "copy")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def holder(folder, tmp_path):
    """A copy of a bundle that holds both editions; their graphs are its own."""
    for edition, changes in (("int8", {"precision": "int8"}), ("binary", {"readings": "binary"})):
        draft, others = tmp_path / edition, shutil.ignore_patterns(*EDITIONS)
        shutil.copytree(folder, draft, copy_function=os.link, ignore=others)
        files = json.loads((draft / "config.json").read_text())["files"]
        change_config(draft, files={name: files[name] for name in files if "/" not in name}, **changes)
        add_edition(folder, edition, draft)
    return folder
