import pytest
from bundle_fixtures import one_thread  # noqa: F401
from made_bundles import CASES, make_bundle


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Makes the bundle of a case when it is first asked for."""
    root = tmp_path_factory.mktemp("bundles")
    done = {}

    def get(case):
        if case not in done:
            done[case] = make_bundle(root, case)
        return done[case]

    return get


@pytest.fixture(params=CASES)
def case(request, made):
    return made(request.param)
