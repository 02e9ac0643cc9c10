import pytest
from bundle_fixtures import one_thread  # noqa: F401
from drawn_shapes import draw_task

from poolsieve.progress import Reporter


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    """A folder with red discs to be flagged and green squares not; tests leave it as it is."""
    return draw_task(tmp_path_factory.mktemp("task") / "shapes")


@pytest.fixture
def quiet():
    return Reporter(quiet=True)
