import pytest
from drawn_shapes import draw_task

from poolsieve.progress import Reporter


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    """A folder with red discs to be flagged and green squares not; tests leave it as it is."""
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture
def quiet():
    return Reporter(quiet=True)


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks on a shared machine are fastest so."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
