"""What several test folders share."""

import signal

import pytest

from poolsieve.decoders import LatentNoise
from poolsieve.designs import PoolingDesign, balanced_design

# A shell's background job ignores Ctrl-C, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

STUDY_ACCURACY = (0.98, 0.95, 0.90, 0.80)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory):
    """What the package keeps for a user, who shall not find the tests' there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def paper_design() -> PoolingDesign:
    """The paper's 50×100 matrix: pools of 8, every image in 4."""
    return balanced_design(100, pool_size=8, pools_per_image=4, seed=0)


@pytest.fixture(scope="session")
def study_noise() -> LatentNoise:
    """P(correct) = .98/.95/.90/.80 for 0/1/2/3+ bad images, else mostly off by one."""
    return LatentNoise.from_accuracy(STUDY_ACCURACY, pool_size=8)
