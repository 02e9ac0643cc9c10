"""The package stands at the bottom: it needs nothing of poolsieve, and nothing that is slow to load."""

import subprocess
import sys

PROGRAM = """
import sys
import poolsieve.statistics
own = sorted(name for name in sys.modules if name.startswith("poolsieve."))
assert all(name.split(".")[1] in ("statistics", "_version", "late_names") for name in own), own
assert not {"scipy.stats", "sklearn", "torch", "numba"} & set(sys.modules)
"""


def test_it_loads_by_itself():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert not done.returncode, done.stderr
