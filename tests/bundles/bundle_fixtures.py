"""A tiny trained run and its bundle, for tests of bundles and of export."""

import pytest
import torch
from altered_bundles import copy_bundle
from made_bundles import tiny_backbone, write_run

from poolsieve.export import export_run


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("tiny") / "run", tiny_backbone())


@pytest.fixture(scope="session")
def tiny_bundle(tiny_run):
    return export_run(tiny_run, tiny_run.parent / "discs", backbone=tiny_backbone())


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
