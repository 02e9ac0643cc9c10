"""Services as processes of their own."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


@contextmanager
def planted_process(url, data, prefix, log):
    """A process, its port and a key; killed at the end if it still runs."""
    paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    arguments = [sys.executable, str(HERE / "planted_service.py"), url, str(data), str(prefix), str(log)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline().split()
        assert len(line) == 2, "the process did not start"
        yield process, f"http://127.0.0.1:{line[0]}", line[1]
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()
