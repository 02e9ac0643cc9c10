"""What numba must compile before the first verdict of a new install.

Seconds depend on the machine, the number of compiled functions does not: one more of them costs a tenth of a
second or more.
"""

import json
import os
import subprocess
import sys

SCRIPT = """
import json
from numba.core import event
import numpy as np

names = []

class Listener(event.Listener):
    def on_start(self, found):
        names.append(found.data["dispatcher"].py_func.__qualname__)

    def on_end(self, found):
        pass

event.register("numba:compile", Listener())
from poolsieve.decoders import MAP, MIP, Readings
from poolsieve.designs import balanced_design

steps = {}
design = balanced_design(100, 8, 4)
steps["design"] = list(names)
readings = Readings(design.counts(np.arange(100) % 25 == 0))
MIP(solver="native").decode(readings, design, 0.01)
steps["mip"] = names[len(steps["design"]):]
MAP().decode(readings, design, 0.01)
steps["map"] = names[len(steps["design"]) + len(steps["mip"]):]
print(json.dumps(steps))
"""


def test_little_is_compiled_for_the_paper_s_scheme(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    compiled = json.loads(done.stdout)
    assert compiled["design"] == []  # found with numpy alone
    assert compiled["map"] == []  # the kernel that MIP has
    own = [name for name in compiled["mip"] if "<locals>" not in name]
    assert own and len(own) == len(set(own)), "a function was compiled for several types"
    assert not [name for name in compiled["mip"] if name.startswith(("ol_np", "np_", "impl_np"))], (
        "numpy's constructors are compiled for every caller; make arrays outside the kernel"
    )
