"""A tiny trained run and its bundle, for tests of bundles and of export."""

import pytest
import torch
from altered_bundles import copy_bundle


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
