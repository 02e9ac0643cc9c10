import pytest
import torch
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


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
