import pytest
from bundle_fixtures import folder, holder, one_thread, tiny_bundle  # noqa: F401
from made_bundles import CASES


@pytest.fixture(params=[case for case in CASES if case != "tiny-shared"])
def case(request, made):
    return made(request.param)
