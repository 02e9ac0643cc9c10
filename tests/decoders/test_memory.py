"""Decoding streams in blocks: memory does not grow with the number of chunks."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from poolsieve.decoders import LatentNoise, Readings, make_decoder
from poolsieve.designs import balanced_design

design = balanced_design(100, 8, 4, seed=0)
noise = LatentNoise.from_accuracy((0.98, 0.95, 0.9, 0.8), 8)
generator = np.random.default_rng(0)
chunks = 100_000
table = np.empty((chunks, 50, 9), dtype=np.float32)
for start in range(0, chunks, 5000):
    bad = generator.random((5000, 100)) < 0.002
    table[start : start + 5000] = noise.sample(bad, design, generator).log_likelihoods
decoding = make_decoder(sys.argv[1]).decode(Readings.soft(table), design, 0.002)
assert decoding.flags.shape == (chunks, 100) and 10_000 < decoding.flags.sum() < 40_000
# Not ru_maxrss, which a child takes over from the process that started it.
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.mark.parametrize("name", ["classo", "mip", "bp", "map"])
def test_a_hundred_thousand_chunks_stay_under_a_gigabyte(name):
    done = subprocess.run([sys.executable, "-c", SCRIPT, name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000
