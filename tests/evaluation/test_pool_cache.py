import signal
import subprocess
import sys

import numpy as np
import pytest

from poolsieve.evaluation.pool_cache import PoolCache


def never(pools):
    raise AssertionError("computed again")


def sums(pools):
    """Something to compute of pools."""
    return np.stack([pools.sum(axis=1), pools.max(axis=1)], axis=1).astype(np.float32)


def test_equal_pools_are_read_once_and_survive_the_process(tmp_path):
    pools = np.array([[3, 1], [2, -1]])
    with PoolCache(tmp_path / "deep" / "pools.db") as cache:
        assert np.array_equal(cache.recall(pools, "a", sums), sums(pools))
        assert np.array_equal(cache.recall(pools[::-1], "a", never), sums(pools)[::-1])
        # Another label or shape is another question.
        cache.recall(pools, "b", lambda asked: sums(asked) + 1)
        cache.recall(pools.reshape(1, 4), "a", lambda asked: np.zeros((1, 9)))
        assert (cache.recalled, cache.computed) == (2, 5)
    with PoolCache(tmp_path / "deep" / "pools.db") as cache:
        assert len(cache) == 5
        assert np.array_equal(cache.recall(pools.astype(np.int32), "a", never), sums(pools))
        assert np.array_equal(cache.recall(pools, "b", never), sums(pools) + 1)


def test_only_the_pools_that_are_not_known_are_computed():
    asked = []

    def compute(pools):
        asked.append(pools.tolist())
        return sums(pools)

    cache = PoolCache()
    cache.recall(np.array([[0, 1], [2, 3]]), "a", compute)
    pools = np.array([[4, 5], [2, 3], [6, 7], [0, 1]])
    assert np.array_equal(cache.recall(pools, "a", compute), sums(pools))
    assert asked == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
def test_what_is_damaged_is_computed_again(tmp_path, damage):
    file = tmp_path / "pools.db"
    rows = [np.full((1, 3), k, dtype=np.float32) for k in range(5)]
    with PoolCache(file) as cache:
        for k, row in enumerate(rows):
            cache.recall(np.array([[k]]), "a", lambda pools, row=row: row)
    data = file.read_bytes()
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data = data.replace(rows[4].tobytes(), rows[3].tobytes())
    else:
        data = b"\xff" * len(data)
    assert data != file.read_bytes()
    file.write_bytes(data)
    with PoolCache(file) as cache:
        assert len(cache) == (4 if damage == "flipped" else 0)
        for k, row in enumerate(rows):
            assert (cache.recall(np.array([[k]]), "a", lambda pools, row=row: row) == k).all()
    with PoolCache(file) as cache:
        assert all((cache.recall(np.array([[k]]), "a", never) == k).all() for k in range(5))


def test_a_killed_process_keeps_what_it_had_written(tmp_path):
    file = tmp_path / "pools.db"
    code = f"""
import os, signal, numpy as np
from pathlib import Path
from poolsieve.evaluation.pool_cache import PoolCache
PoolCache(Path({str(file)!r})).recall(np.array([[7]]), "a", lambda pools: np.ones((1, 3)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    with PoolCache(file) as cache:
        assert (cache.recall(np.array([[7]]), "a", never) == 1).all()
