"""Kernels compile also where nothing can be cached, and functions as parts of them."""

import os
import subprocess
import sys

import numpy as np
from avx2_environment import avx2_environment

from poolsieve.compiled import compiled, compiled_within

SCRIPT = """
from numba.core import caching

# What numba finds in a read-only install without a home: no folder that it could write to.
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(lambda cls, function, file: None)
from poolsieve.compiled import compiled

@compiled
def double(x):
    return 2 * x

assert double(21) == 42
"""


FULL_DISK = """
from numba.core import caching
from poolsieve.compiled import compiled

def fail(self, *arguments):
    raise OSError(28, "No space left on device")

caching.IndexDataCacheFile.save = fail

@compiled
def double(x):
    return 2 * x

assert double(21) == 42
"""


def test_a_full_disk_does_not_stop_a_kernel(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(FULL_DISK)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_read_only_install_still_works(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


CACHED = """
from poolsieve.compiled import compiled

@compiled
def double(x):
    return 2 * x

assert double(21) == 42
print(sum(double.dispatcher.stats.cache_hits.values()))
"""


def test_machine_code_of_another_processor_is_not_taken_from_the_cache(tmp_path):
    """A home that several machines share, or a folder that was moved to another."""
    file = tmp_path / "script.py"
    file.write_text(CACHED)
    hits = []
    for processor in ({}, avx2_environment(), {}, avx2_environment()):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **processor}
        done = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        hits.append(int(done.stdout))
    narrower = "NUMBA_CPU_NAME" in avx2_environment() and os.environ.get("NUMBA_CPU_NAME") is None
    assert hits == ([0, 0, 1, 1] if narrower else [0, 1, 1, 1])


@compiled_within
def share(total, parts):
    return total / parts


@compiled
def shares(totals, parts):
    for k in range(len(totals)):
        totals[k] = share(totals[k], parts)


def test_a_part_of_a_kernel_can_be_called_from_python_too():
    """It has no compiled entrance, so the compiled form called from Python would end the process."""
    totals = np.array([3.0, 0.0])
    shares(totals, 2)
    assert totals.tolist() == [share(3.0, 2), share(0.0, 2)] == [1.5, 0.0]
