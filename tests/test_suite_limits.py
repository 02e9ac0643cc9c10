"""The suite ends: when a worker dies, when a test hangs, and when all of it does.

Small sessions are run with the options of the Makefile and the settings of pyproject.toml.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TIME_LIMIT = ROOT / "tests" / "time_limit.py"
DYING = "import os, signal\n\ndef test_dies(): os.kill(os.getpid(), signal.SIGILL)\n"
HANGING = """
import time

def test_hangs():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
"""
FINE = "def test_is_fine(): pass\n"


def makefile_options():
    """What `make test` gives to pytest."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (options,) = re.findall(r"^PYTEST = .*tests/time_limit\.py .* -m pytest (.*)$", text, re.MULTILINE)
    assert re.search(r"^test: .*\n\t\$\(PYTEST\)$", text, re.MULTILINE)
    return shlex.split(options)


def session(folder, *further, **files):
    for name, content in files.items():
        (folder / f"test_{name}.py").write_text(content)
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command = [sys.executable, "-m", "pytest", *settings, *makefile_options(), *further, str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_worker_that_dies_fails_the_run(tmp_path):
    status, output = session(tmp_path, dying=DYING, fine=FINE)
    assert status == 1
    assert "crashed and worker restarting disabled" in output
    assert "test_dies" in output


def test_a_test_that_hangs_fails_the_run(tmp_path):
    status, output = session(tmp_path, "-o", "timeout=5", hanging=HANGING, fine=FINE)
    assert status == 1
    assert "crashed and worker restarting disabled" in output
    assert "test_hangs" in output


def test_there_is_a_limit_for_every_test():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert 0 < settings["timeout"] <= 600


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
@pytest.mark.parametrize("asked", [False, True])
def test_what_hangs_altogether_is_ended_with_all_that_it_started(tmp_path, asked):
    child = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HANGING + 'test_hangs()'!r}, 'x'])"
    )
    script = f"import os, sys, subprocess\nopen('pid', 'w').write(str(os.getpid()))\n{child}"
    seconds = "300" if asked else "5"
    command = [sys.executable, str(TIME_LIMIT), seconds, sys.executable, "-c", script]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while asked and not ((tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()):
        time.sleep(0.1)
    if asked:
        running.terminate()
    _, messages = running.communicate(timeout=200)
    assert running.returncode == (143 if asked else 124)
    assert asked or "not done after 5 seconds" in messages
    group = int((tmp_path / "pid").read_text())
    while True:  # the group is gone once init has taken leave of it
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)


@pytest.mark.parametrize("status", [0, 3])
def test_a_command_that_ends_in_time_keeps_its_status(status):
    command = [sys.executable, str(TIME_LIMIT), "300", sys.executable, "-c", f"raise SystemExit({status})"]
    assert subprocess.run(command, timeout=300, check=False).returncode == status
