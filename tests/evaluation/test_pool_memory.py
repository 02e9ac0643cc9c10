import numpy as np
import pytest

from poolsieve.evaluation.pool_memory import PoolMemory


def never():
    raise AssertionError("computed again")


def test_equal_pools_are_read_once_and_survive_the_process(tmp_path):
    pools = np.array([[3, 1], [2, -1]])
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    with PoolMemory(tmp_path / "deep" / "pools.log") as memory:
        assert np.array_equal(memory.recall(pools, "a", lambda: table), table)
        assert np.array_equal(memory.recall(pools, "a", never), table)
        # Another label, order or shape is another question.
        for other, label in ((pools, "b"), (pools[::-1], "a"), (pools.reshape(1, 4), "a")):
            memory.recall(other, label, lambda: table + 1)
        assert (memory.recalled, memory.computed) == (1, 4)
    with PoolMemory(tmp_path / "deep" / "pools.log") as memory:
        assert len(memory) == 4
        assert np.array_equal(memory.recall(pools.astype(np.int32), "a", never), table)


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "garbage"])
def test_an_unfinished_or_damaged_end_is_dropped(tmp_path, damage):
    file = tmp_path / "pools.log"
    with PoolMemory(file) as memory:
        for k in range(5):
            memory.recall(np.array([[k]]), "a", lambda k=k: np.full((1, 3), k, dtype=np.float32))
    data = bytearray(file.read_bytes())
    record = len(data) // 5
    if damage == "cut":
        data = data[:-5]
    elif damage == "flipped":
        data[-1] ^= 1
    elif damage == "header":
        data[4 * record + 18] ^= 1
    else:
        data += b"\xff" * 300
    file.write_bytes(bytes(data))
    with PoolMemory(file) as memory:
        assert len(memory) == (5 if damage == "garbage" else 4)
        memory.recall(np.array([[4]]), "a", lambda: np.full((1, 3), 4, dtype=np.float32))
    with PoolMemory(file) as memory:
        for k in range(5):
            assert (memory.recall(np.array([[k]]), "a", never) == k).all()
