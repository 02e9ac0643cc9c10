"""What several test folders share."""

import os
import shutil
import signal
from functools import cache

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# Workers share the processors: threads of several would wait for each other at full speed, which took two
# thirds of the time of tests of networks. Processes that tests start inherit this. It must stand before numpy
# or torch is imported, so what needs them is imported where it is used.
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
# A shell's background job ignores Ctrl-C, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is a matter of seconds. In CI hypothesis' own profile says so and draws the same examples each time.
if "CI" not in os.environ:
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")

STUDY_ACCURACY = (0.98, 0.95, 0.90, 0.80)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory):
    """What the package keeps for a user, who shall not find the tests' there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def build_once(tmp_path_factory):
    """Builds a folder that all workers of a run share: who asks first builds it, and others wait.

    Tests leave it as it is, or copy it.
    """
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    root.mkdir(exist_ok=True)

    def build(name, make):
        folder, done = root / name, root / f"{name}.done"
        with FileLock(root / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what a worker that died left
                make(folder)
                done.touch()
        return folder

    return build


@pytest.fixture(scope="session")
def made(build_once):
    """Gives the bundle of a case with its networks (see `made_bundles.CASES`)."""
    from made_bundles import load_made, make_bundle

    def get(case):
        return load_made(build_once(case, lambda folder: make_bundle(folder, case)), case)

    return cache(get)


@pytest.fixture(scope="session")
def small(build_once):
    """The bundle that benchmarks and tests share."""
    from small_bundle import small_bundle

    from poolsieve.bundles import load_bundle

    return load_bundle(build_once("small", small_bundle))


@pytest.fixture(scope="session")
def paper_design():
    """The paper's 50×100 matrix: pools of 8, every image in 4."""
    from poolsieve.designs import balanced_design

    return balanced_design(100, pool_size=8, pools_per_image=4, seed=0)


@pytest.fixture(scope="session")
def study_noise():
    """P(correct) = .98/.95/.90/.80 for 0/1/2/3+ bad images, else mostly off by one."""
    from poolsieve.decoders import LatentNoise

    return LatentNoise.from_accuracy(STUDY_ACCURACY, pool_size=8)
