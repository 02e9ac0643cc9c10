"""Kernels compile also where nothing can be cached."""

import subprocess
import sys

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
