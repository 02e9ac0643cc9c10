"""A service that runs: what a crowd took of the memory is given back."""

import platform
import subprocess
import sys

import pytest

_A_CROWD = """
import asyncio
from pathlib import Path
from poolsieve.serving import running

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

async def main():
    running._GIVE_BACK = 0.05
    giving = asyncio.create_task(running.give_memory_back())
    bodies = [b"x" * 100_000 for _ in range(2_000)]  # of zeros the system would keep none
    full = held()
    del bodies[::2]  # what is left keeps the heap from shrinking
    while held() > full - 80:
        await asyncio.sleep(0.05)
    giving.cancel()

asyncio.run(asyncio.wait_for(main(), 60))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries give memory back themselves")
def test_memory_of_a_crowd_that_has_left_is_given_back():
    subprocess.run([sys.executable, "-c", _A_CROWD], check=True)
