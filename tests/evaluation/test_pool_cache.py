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
    with PoolCache(tmp_path / "deep" / "pools.log") as cache:
        assert np.array_equal(cache.recall(pools, "a", sums), sums(pools))
        assert np.array_equal(cache.recall(pools[::-1], "a", never), sums(pools)[::-1])
        # Another label or shape is another question.
        cache.recall(pools, "b", lambda asked: sums(asked) + 1)
        cache.recall(pools.reshape(1, 4), "a", lambda asked: np.zeros((1, 9)))
        assert (cache.recalled, cache.computed) == (2, 5)
    with PoolCache(tmp_path / "deep" / "pools.log") as cache:
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


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "garbage"])
def test_an_unfinished_or_damaged_end_is_dropped(tmp_path, damage):
    file = tmp_path / "pools.log"
    with PoolCache(file) as cache:
        for k in range(5):
            cache.recall(np.array([[k]]), "a", lambda pools, k=k: np.full((1, 3), k, dtype=np.float32))
    data = bytearray(file.read_bytes())
    record = len(data) // 5
    if damage == "cut":
        data = data[:-5]
    elif damage == "flipped":
        data[-1] ^= 1
    elif damage == "header":
        data[4 * record + 2] ^= 1
    else:
        data += b"\xff" * 300
    file.write_bytes(bytes(data))
    with PoolCache(file) as cache:
        assert len(cache) == (5 if damage == "garbage" else 4)
        cache.recall(np.array([[4]]), "a", lambda pools: np.full((1, 3), 4, dtype=np.float32))
    with PoolCache(file) as cache:
        for k in range(5):
            assert (cache.recall(np.array([[k]]), "a", never) == k).all()
